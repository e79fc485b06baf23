-- Record a check's or grader's verdict on an agent's work: the journal's entry and the record's list of verdicts, in one step.
--   verdict  JSON {by, attempt, passed, summary, …}: one item of the records' list
-- Field of an agent, and of the job of a root: `verdicts`, JSON [verdict], the last 40.
-- Returns {'ok', unread messages, publish} | {'repeat'} | {'stale'} | {'cancelled'}
local MOST_KEPT = 40

step('judge_end', function(id, gen, number, entry, verdict)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { running = true }, number, 1)
  if refused then return { refused } end
  local job, parent, known, unread = fields(id, 'job', 'parent', 'verdicts', 'unread')
  agents.append(id, job, number, entry)
  local verdicts, told = cjson.decode(known or '[]'), cjson.decode(verdict)
  verdicts[#verdicts + 1] = told
  while #verdicts > MOST_KEPT do table.remove(verdicts, 1) end
  local encoded = cjson.encode(verdicts)
  redis.call('HSET', agent_key(id), 'verdicts', encoded, 'active', NOW)
  if parent == '' then redis.call('HSET', job_key(job), 'verdicts', encoded) end
  emit(job, 'verdict', id, 'by', told.by, 'attempt', told.attempt, 'passed', told.passed and '1' or '', 'summary', told.summary)
  return { 'ok', count(unread), publish }
end)
