-- Make a job and its queued root agent, once: repeating the same ids changes nothing.
--   job_record, agent_record  JSON {fields...}
--   seconds                   the job's time limit, or ''
--   digest, definitions       hash and JSON of the job's definitions; '' for a known text
--   carried                   JSON {name: [digest, text]} of the job's other documents, such as its instruction files
--   others                    JSON [[digest, text or ''], ...] of documents that those refer to
--   webhook                   JSON: the job's own address, or ''
-- Returns {'ok', publish} | {'exists', publish, digest of the order that made the job} | {'document'}: repeat with the texts
--   | {'full', used, most}: Redis is near its limit, in bytes
--   | {'broker'}: no worker knows the broker of its callback
--   | {'webhook'}: no worker delivers to jobs' own addresses
step('submit', function(job, root, job_record, agent_record, seconds, digest, definitions, carried, others, webhook)
  if redis.call('EXISTS', job_key(job)) == 1 then return { 'exists', publish, job_field(job, 'order') or '' } end
  local lack = room.lack()
  if lack then return { 'full', unpack(lack) } end
  local record = cjson.decode(job_record)
  if record.callback_broker and not callbacks.knows_broker(record.callback_broker) then return { 'broker' } end
  if not documents.refer(job, digest, definitions) then return { 'document' } end
  local digests = {}
  for name, document in pairs(cjson.decode(carried)) do
    if not documents.refer(job, document[1], document[2]) then return { 'document' } end
    digests[name] = document[1]
  end
  for _, other in ipairs(cjson.decode(others)) do
    if not documents.refer(job, other[1], other[2]) then return { 'document' } end
  end
  if webhook ~= '' and not webhooks.bring(job, webhook) then return { 'webhook' } end
  submit.begin_job(job, root, record, cjson.decode(agent_record), seconds, digest, next(digests) and cjson.encode(digests) or '')
  return { 'ok', publish }
end)
