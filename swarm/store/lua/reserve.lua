-- Reserve tokens and money of the job before a model call; appending the reply settles the actual use.
-- The reservation of a dead generation is returned first.
--   tokens, cost                  the call's minimum
--   spare_tokens, spare_cost      the call's possible use beyond that, granted as far as available
--   closing_tokens, closing_cost  the use of a last reply after the call: an agent with children keeps it until its end; for any other, it
--                                 must fit beside the call. It includes the use of a grader that will judge the agent's work
--   final                         '1': the call is the last reply
-- Returns {'ok', share of the tightest limit used, 0..1, granted share of the spare amounts, 0..1} | {'wait', tokens, cost}
--   | {'limit', name, limit, used} | {'stale'} | {'cancelled'}
step('reserve', function(id, gen, tokens, cost, spare_tokens, spare_cost, closing_tokens, closing_cost, final)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  local job = field(id, 'job')
  tokens, cost, spare_tokens, spare_cost = tonumber(tokens), tonumber(cost), tonumber(spare_tokens), tonumber(spare_cost)
  closing_tokens, closing_cost = tonumber(closing_tokens), tonumber(closing_cost)
  admission.give_back(id, job)
  if final == '1' or redis.call('EXISTS', children_key(id)) == 1 or field(id, 'graded') then
    -- Beside a last reply, only a grader's use is kept.
    budgets.keep_closing(id, job, closing_tokens, closing_cost)
  else
    tokens, cost = tokens + closing_tokens, cost + closing_cost
  end
  local sums, share, grant = budgets.load(job, id), 0, 1
  for _, part in ipairs({ sums.tokens, sums.cost }) do
    if part.max then share = math.max(share, part.used / part.max) end
  end
  -- Emitted even if the call does not fit; otherwise its receivers would learn only of the end.
  if share >= 0.8 and redis.call('HSETNX', job_key(job), 'budget_told', 1) == 1 then
    emit(job, 'budget', id, 'share', string.format('%.2f', share))
  end
  local verdict = budgets.judge(sums, tokens, cost)
  if verdict == 'wait' then return { 'wait', string.format('%.0f', tokens), string.format('%.0f', cost) } end
  if verdict then return { 'limit', verdict.name, string.format('%.0f', verdict.max), string.format('%.0f', verdict.used) } end
  for name, part in pairs(sums) do
    local wanted = name == 'tokens' and { tokens, spare_tokens } or { cost, spare_cost }
    if part.max and wanted[2] > 0 then grant = math.min(grant, (part.left - wanted[1]) / wanted[2]) end
  end
  tokens, cost = tokens + math.floor(grant * spare_tokens), cost + math.floor(grant * spare_cost)
  add(job_key(job), 'reserved_tokens', tokens)
  add(job_key(job), 'reserved_cost', cost)
  budgets.count_in(id, job, 'held', cost)
  redis.call('HSET', agent_key(id), 'reserved_tokens', string.format('%.0f', tokens), 'reserved_cost', string.format('%.0f', cost))
  return { 'ok', tostring(share), tostring(grant) }
end)
