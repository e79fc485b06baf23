-- Summaries for people: a small model's account of an agent at work, and of its job. They are paid from the job's budget, but not at the
-- cost of work: a summary is made only if several times its price is left, and all of a job's summaries take at most a share of its limits.
-- Fields of an agent: `summary`; `summary_at` and `summary_length`, the start of the last one and the journal's length then;
-- `summary_tokens` and `summary_cost`, the reservation of a current one. Fields of a job: `digest`; `summaries`, their number;
-- `summaries_tokens` and `summaries_cost`, their use; `aside_tokens` and `aside_cost`, current reservations, which count as used, so no
-- agent waits for them.

-- Return the reservation of a summary that has ended or was never published.
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
