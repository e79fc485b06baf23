-- Take messages into a journal: the entry holds them and the new cursor, and they no longer count as unread.
-- ARGV: prefix, agent, generation, number of the entry, entry, messages in it, how many of those the runtime wrote
-- Answers {'ok', unread messages left} | {'repeat'} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { running = true }, number, 1)
if refused then return { refused } end
append(id, number, ARGV[5])
-- Subtracted from 0: the negative of 0 is '-0', which is no integer to Redis.
redis.call('HINCRBY', agent_key(id), 'unread_notes', 0 - tonumber(ARGV[7]))
return { 'ok', redis.call('HINCRBY', agent_key(id), 'unread', 0 - tonumber(ARGV[6])) }
