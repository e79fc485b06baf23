-- Jobs that work on a repository. Fields of a job:
--   branch, pull_request  the pushed branch, and its pull request's address
--   unpushed              why the work is not there
--   review                id of a person's request for the review comments, until a worker has delivered them
--   pushed                JSON for workers: the commits that may be at the branch, and the snapshot that the last one holds

-- Set the commit that the root's workspace begins as, before its journal begins.
--   spec          JSON: the agent's spec with that commit
--   instructions  digest and text of the job's instruction files with those of the repository, or ''
-- Returns {'ok'} | {'stale'} | {'cancelled'}
step('begin_from', function(id, gen, spec, digest, instructions)
  local refused = agents.refusal(id, gen, {}, 1, 1)
  if refused then return { refused } end
  local job = field(id, 'job')
  redis.call('HSET', agent_key(id), 'spec', spec)
  if digest ~= '' then
    documents.refer(job, digest, instructions)
    local carried = cjson.decode(job_field(job, 'carried') or '{}')
    carried.instructions = digest
    redis.call('HSET', job_key(job), 'carried', cjson.encode(carried))
  end
  return { 'ok' }
end)

-- Note how far the work has got at its server.
--   values  fields and values of the job
-- Returns {'ok'} | {'stale'} | {'cancelled'}
step('note_push', function(id, gen, values)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  redis.call('HSET', job_key(field(id, 'job')), unpack(values))
  return { 'ok' }
end, { list_after = 2, when_full = true })

-- Ask for the review comments of a job's pull request; they are delivered when the root continues.
-- Returns {'ok'} | {'unknown'} | {'none'}: it has no pull request
step('want_review', function(job, request)
  local root, address = job_fields(job, 'root', 'pull_request')
  if not root then return { 'unknown' } end
  if not address or address == '' then return { 'none' } end
  redis.call('HSET', job_key(job), 'review', request)
  return { 'ok' }
end)

-- Deliver requested review comments to the root, once.
-- Returns {'ok', publish} | {'stale'} | {'cancelled'}
step('deliver_review', function(id, gen, request, text)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  local job = field(id, 'job')
  if job_field(job, 'review') == request then
    redis.call('HDEL', job_key(job), 'review')
    agents.notify(id, { what = 'note', text = text })
  end
  return { 'ok', publish }
end)
