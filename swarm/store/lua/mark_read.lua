-- Mark a job's mailbox as read by its person up to a message; a later mark stays.
-- Returns {'ok', messages left unread} | {'unknown'}
step('mark_read', function(job, up_to)
  local state, cursor = job_fields(job, 'state', 'read')
  if not state then return { 'unknown' } end
  cursor = cursor or '0-0'
  local marked = 0
  while true do
    -- In pages, because the entries come with their bodies.
    local page = redis.call('XRANGE', P .. ':mail:' .. job, '(' .. cursor, up_to, 'COUNT', 50)
    if #page == 0 then break end
    marked, cursor = marked + #page, page[#page][1]
  end
  if marked > 0 then redis.call('HSET', job_key(job), 'read', cursor) end
  return { 'ok', subtract(job_key(job), 'unread', marked) }
end, { when_full = true })
