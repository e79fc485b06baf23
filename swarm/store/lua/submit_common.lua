-- Starting a job, for submit.lua and for capabilities that start jobs themselves.

-- Make a job's records, and put its root on the queue. Its documents already exist.
--   record, fields  tables: of the job, of its root
--   seconds         the job's time limit, or ''
--   digest, carried hash of its definitions; JSON {name: hash} of its other documents, or ''
function submit.begin_job(job, root, record, fields, seconds, digest, carried)
  for name, value in pairs(record) do redis.call('HSET', job_key(job), name, value) end
  redis.call('HSET', job_key(job), 'root', root, 'created', NOW, 'agents', 1, 'definitions', digest)
  if carried ~= '' then redis.call('HSET', job_key(job), 'carried', carried) end
  for name, value in pairs(fields) do redis.call('HSET', agent_key(root), name, value) end
  redis.call('HSET', agent_key(root), 'job', job, 'parent', '', 'depth', 0, 'gen', 0, 'created', NOW)
  jobs.set_state(job, 'running')
  jobs.expire(job, '')
  redis.call('ZADD', job_key(job, 'agents'), NOW, root)
  if seconds ~= '' then
    agents.set_deadline(job, tonumber(seconds))
  end
  redis.call('HSET', job_key(job, 'names'), 'root', root)
  admission.put_on_queue(root)
  emit(job, 'job_started', root)
  tally('jobs')
  tally('agents')
end
