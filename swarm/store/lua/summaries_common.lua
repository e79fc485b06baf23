-- Summaries for people: a small model's account of an agent at work, and of its job. They are paid from the job's budget, but not at the
-- cost of work: a summary is made only if several times its price is left, and all of a job's summaries take at most a share of its limits.
-- Fields of an agent: `summary`; `summary_at` and `summary_length`, the start of the last one and the journal's length then;
-- `summary_tokens` and `summary_cost`, the reservation of a current one, and `summary_call`, its use if it is lost, as JSON. Fields of a job: `digest`; `summaries`, their number;
-- `summaries_tokens` and `summaries_cost`, their use; `aside_tokens` and `aside_cost`, current reservations, which count as used, so no
-- agent waits for them.

-- Return the reservation of a summary that has ended or was never published.
function summaries.give_back(id, job)
  local tokens, cost = fields(id, 'summary_tokens', 'summary_cost')
  if not tokens then return end
  subtract(job_key(job), 'aside_tokens', tokens)
  subtract(job_key(job), 'aside_cost', cost)
  redis.call('HDEL', agent_key(id), 'summary_tokens', 'summary_cost', 'summary_call')
  budgets.serve(job)
end

-- Charge a job for the use of a summary, and count it.
function summaries.pay(id, job, took)
  local model = took.model
  took.model = nil
  for _, name in ipairs({ 'input', 'output', 'cache_write', 'cache_read' }) do
    if took[name] then add(job_key(job), 'summaries_tokens', took[name]) end
  end
  if took.cost then add(job_key(job), 'summaries_cost', took.cost) end
  budgets.spend(nil, job, took, budgets.ledger_model(model, field(id, 'rehearsed')))
  redis.call('HINCRBY', job_key(job), 'summaries', 1)
end

-- Charge a job for a current summary that died with its process; its use is an estimate.
function summaries.lose(id, job)
  local call = field(id, 'summary_call')
  if not call then return end
  summaries.give_back(id, job)
  summaries.pay(id, job, cjson.decode(call))
end

at_end(function(job, id)
  summaries.give_back(id, job)
  redis.call('HDEL', agent_key(id), 'summary')
end)
