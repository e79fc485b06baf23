-- Summaries for people: what a small model says of an agent at work, and of its job. Paid from the job's purse, and never at the cost of work:
-- one is made only where several times its price is left, and all of a job's together take no more than a share of its limits.
-- Of an agent: `summary`; `summary_at` and `summary_length`, when the last one began and how long the journal was then; `summary_tokens` and
-- `summary_cost`, what is set aside for one under way. Of a job: `digest`; `summaries`, how many there were, `summaries_tokens` and
-- `summaries_cost`, what they took; `aside_tokens` and `aside_cost`, what is set aside for those under way, which counts as used: nobody waits for it.

-- Give back what was set aside for one that is over, or was never told.
function summaries.give_back(id, job)
  local tokens, cost = fields(id, 'summary_tokens', 'summary_cost')
  if not tokens then return end
  subtract(job_key(job), 'aside_tokens', tokens)
  subtract(job_key(job), 'aside_cost', cost)
  redis.call('HDEL', agent_key(id), 'summary_tokens', 'summary_cost')
  budgets.serve(job)
end

at_end(function(job, id)
  summaries.give_back(id, job)
  redis.call('HDEL', agent_key(id), 'summary')
end)
