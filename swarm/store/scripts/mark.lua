-- A person has read a job's mailbox up to a message; what was marked further already stays so.
-- ARGV: prefix, job, id of the message
-- Answers {'ok', messages left unread} | {'unknown'}
local job = ARGV[2]
local record = redis.call('HMGET', job_key(job), 'state', 'read', 'unread')
if not record[1] then return { 'unknown' } end
local cursor, count = record[2] or '0-0', 0
while true do
  -- In pages, because the entries come with their bodies.
  local page = redis.call('XRANGE', P .. ':mail:' .. job, '(' .. cursor, ARGV[3], 'COUNT', 50)
  if #page == 0 then break end
  count, cursor = count + #page, page[#page][1]
end
if count > 0 then redis.call('HSET', job_key(job), 'read', cursor) end
return { 'ok', redis.call('HINCRBY', job_key(job), 'unread', 0 - count) }
