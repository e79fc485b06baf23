-- Change a job's scratchpad once, by one of its agents; repeating a cause returns the first answer and changes nothing.
--   operation  'write' | 'append' | 'delete'
--   request    JSON {agent, cause, page, if_version?, max_page, max_pad, max_pages}
--              if_version  the page's expected version; 0: it must not exist
-- Returns {'ok', publish, JSON {version, size}, kill} | {'version', current or 0} | {'missing'}
--   | {'limit', 'page' | 'pad' | 'pages', resulting size} | {'refused', 'not live', '{}'}
step('scratchpad', function(job, operation, request, text)
  local given = cjson.decode(request)
  local early = causes.answered(job, given.agent, given.cause)
  if early then return early end

  local pad, page = scratchpad.key(job), scratchpad.page_key(job, given.page)
  local known = redis.call('HGET', pad, given.page)
  known = known and cjson.decode(known)
  local version, size = known and known.version or 0, known and known.size or 0
  if given.if_version and given.if_version ~= version then return { 'version', version } end

  if operation == 'delete' then
    if not known then return { 'missing' } end
    redis.call('HDEL', pad, given.page)
    redis.call('DEL', page)
    subtract(job_key(job), 'pad_bytes', size)
    emit(job, 'pad', given.agent, 'page', given.page, 'change', 'deleted')
    return causes.answer(job, given.cause, { version = 0, size = 0 })
  end

  local grown = (operation == 'append' and size or 0) + #text
  if grown > given.max_page then return { 'limit', 'page', grown } end
  local total = count(job_field(job, 'pad_bytes')) - size + grown
  if total > given.max_pad then return { 'limit', 'pad', total } end
  if not known and redis.call('HLEN', pad) >= given.max_pages then return { 'limit', 'pages', given.max_pages + 1 } end
  if operation == 'append' then redis.call('APPEND', page, text) else redis.call('SET', page, text) end
  keep_with_job(job, page)
  add(job_key(job), 'pad_bytes', grown - size)
  version = redis.call('HINCRBY', job_key(job), 'pad_version', 1)
  redis.call('HSET', pad, given.page, cjson.encode({ size = grown, version = version, by = given.agent,
    by_name = agents.name_of(given.agent), at = NOW }))
  emit(job, 'pad', given.agent, 'page', given.page, 'change', operation == 'append' and 'appended' or 'written', 'size', grown)
  return causes.answer(job, given.cause, { version = version, size = grown })
end)
