-- Events from outside: what programs tell the swarm under a key, once for each key, and agents wait for.
--
-- P:happening:KEY  hash  what was told: data, by, at, token (of the call that told it),
--                          answered (agents, JSON); it expires by itself
-- P:awaited:KEY    set   open questions of the kind `event`, which nobody answers but the event

function external_events.external_event_key(key) return P .. ':external_event:' .. key end

function external_events.awaited_key(key) return P .. ':awaited:' .. key end

-- The key of the event that a question waits for, by whom it is put to; nil for one that somebody is asked.
function external_events.event_of(to) return to and to:match('^event:(.+)$') end
