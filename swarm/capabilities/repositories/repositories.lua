-- Jobs that work on a repository. Fields of a job:
--   branch, pull_request  the pushed branch, and its pull request's address
--   unpushed              why the work is not there
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
