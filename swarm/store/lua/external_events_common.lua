-- External events: programs report each key once, and agents wait for it.
--
-- P:external_event:KEY  hash  the event: data, by, at, token (of the reporting call), answered (agents, JSON); it expires by itself
-- P:awaited:KEY         set   open questions of the kind `event`, which only the event answers

function external_events.external_event_key(key) return P .. ':external_event:' .. key end

function external_events.awaited_key(key) return P .. ':awaited:' .. key end

-- The key of the event that a question with this `to` waits for; nil for other questions.
function external_events.event_of(to) return to and to:match('^event:(.+)$') end
