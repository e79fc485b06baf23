-- The purse of a job: what its limits of tokens and money still allow. A call of the model is reserved before it is made, and settled
-- with what it really took; what others have only reserved makes an agent wait, and it is woken when that is settled or given back.
--
-- Of a job: max_tokens, max_cost; reserved_*, the calls under way; closing_*, what is kept for the last reply of each agent that has
-- children, and for the grader of each that is graded, until its end. Of an agent: its own part of both; `wait_tokens` and `wait_cost`, what it waits for.
-- P:job:ID:purse  zset  the agents that wait (score: -depth, then time)

-- What is used, held by calls under way, and left, of tokens and of money; `max` is false where there is no limit.
function budgets.load(job)
  local max_tokens, max_cost, reserved_tokens, reserved_cost, closing_tokens, closing_cost, input, output, write, read_, spent,
    aside_tokens, aside_cost = job_fields(job, 'max_tokens', 'max_cost', 'reserved_tokens', 'reserved_cost', 'closing_tokens',
      'closing_cost', 'input', 'output', 'cache_write', 'cache_read', 'cost', 'aside_tokens', 'aside_cost')
  -- What a summary for people takes counts as used: no agent waits until it is made.
  local function part(name, max, used, held, closing)
    return { name = name, max = max and tonumber(max), used = used, held = held, left = max and tonumber(max) - used - held - closing }
  end
  return {
    tokens = part('tokens', max_tokens, count(input) + count(output) + count(write) + count(read_) + count(aside_tokens),
      count(reserved_tokens), count(closing_tokens)),
    cost = part('budget', max_cost, count(spent) + count(aside_cost), count(reserved_cost), count(closing_cost)),
  }
end

-- Nil if so much can be reserved now; 'wait' if it could be once the calls under way are settled; else the part that is used up.
function budgets.judge(sums, tokens, cost)
  local waits
  for name, wanted in pairs({ tokens = tokens, cost = cost }) do
    local part = sums[name]
    if part.max and wanted > part.left then
      if wanted > part.left + part.held then return part end
      waits = 'wait'
    end
  end
  return waits
end

-- Keep so much for the agent's last reply, or nothing any more.
function budgets.keep_closing(id, job, tokens, cost)
  local had_tokens, had_cost = fields(id, 'closing_tokens', 'closing_cost')
  if not had_tokens and tokens == 0 and cost == 0 then return end
  add(job_key(job), 'closing_tokens', tokens - count(had_tokens))
  add(job_key(job), 'closing_cost', cost - count(had_cost))
  redis.call('HSET', agent_key(id), 'closing_tokens', tokens, 'closing_cost', cost)
end

-- Wake those whose turn it is: in order, as far as what is left goes, and everybody for whom it will never go far enough.
function budgets.serve(job)
  local waiting = redis.call('ZRANGE', job_key(job, 'budget'), 0, 99)
  if #waiting == 0 then return end
  local sums = budgets.load(job)
  for _, id in ipairs(waiting) do
    local tokens, cost = fields(id, 'wait_tokens', 'wait_cost')
    tokens, cost = count(tokens), count(cost)
    local verdict = budgets.judge(sums, tokens, cost)
    if verdict == 'wait' then return end
    if not verdict then
      sums.tokens.left = sums.tokens.max and sums.tokens.left - tokens
      sums.cost.left = sums.cost.max and sums.cost.left - cost
    end
    agents.wake(id, 'budget')
  end
end

at_end(function(job, id)
  budgets.keep_closing(id, job, 0, 0)
  redis.call('HDEL', agent_key(id), 'closing_tokens', 'closing_cost')
  redis.call('ZREM', job_key(job, 'budget'), id)
  budgets.serve(job)
end)

keep_parts('budget')
