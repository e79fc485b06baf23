-- The budget of a job: the rest of its limits of tokens and money. A model call is reserved before it is made, and settled with its actual
-- use. An agent waits while others' reservations hold the amounts it needs; settling or returning them wakes it.
--
-- Fields of a job: max_tokens, max_cost; reserved_*, the current calls; closing_*, the amounts kept for the last reply of each agent with
-- children and for the grader of each graded agent, until its end. Fields of an agent: its part of both; `wait_tokens` and `wait_cost`,
-- the awaited amounts.
-- P:job:ID:budget  zset  the waiting agents, the next one first: `admission.place`
-- P:job:ID:allowances  hash  parts of the budget for some agents and all below them: NAME|max, |used, |held, |closing, in nano-dollars. A field
--                          `allowances` of an agent names its own, separated by spaces
-- P:spent          hash  the fleet's tokens and money since it began, by model: MODEL|COUNTER. The model `rehearsal` was played by a script. `first`, the
--                          first day with a state
-- P:spent:DAY      hash  its state at the first sweep of a day, counted from 1970 in UTC; kept for KEPT_DAYS

-- The names of an agent's allowances.
function budgets.allowances(id)
  local names = {}
  for name in (field(id, 'allowances') or ''):gmatch('%S+') do names[#names + 1] = name end
  return names
end

-- Add to one amount of each of an agent's allowances.
function budgets.count_in(id, job, amount, by)
  if by == 0 then return end
  for _, name in ipairs(budgets.allowances(id)) do add(job_key(job, 'allowances'), name .. '|' .. amount, by) end
end

-- One allowance, as the parts of `budgets.load`.
function budgets.load_allowance(job, name)
  local max, used, held, closing = read(job_key(job, 'allowances'), name .. '|max', name .. '|used', name .. '|held', name .. '|closing')
  return { name = 'allowance', max = tonumber(max), used = count(used), held = count(held),
    left = max and tonumber(max) - count(used) - count(held) - count(closing) }
end

-- Let a child have its parent's allowances, and one of its own: `own` is NAME, `max` its nano-dollars if it is new.
-- Returns the field of its record
function budgets.allow(parent, job, own, max)
  local names = budgets.allowances(parent)
  if own then
    redis.call('HSETNX', job_key(job, 'allowances'), own .. '|max', max)
    names[#names + 1] = own
  end
  return table.concat(names, ' ')
end

-- The used, held and remaining tokens and money, with the allowances of agent `id` if there is one; `max` is false if there is no limit.
function budgets.load(job, id)
  local max_tokens, max_cost, reserved_tokens, reserved_cost, closing_tokens, closing_cost, input, output, write, read_, spent,
    aside_tokens, aside_cost = job_fields(job, 'max_tokens', 'max_cost', 'reserved_tokens', 'reserved_cost', 'closing_tokens',
      'closing_cost', 'input', 'output', 'cache_write', 'cache_read', 'cost', 'aside_tokens', 'aside_cost')
  -- A summary's reservation counts as used: no agent waits until it is made.
  local function part(name, max, used, held, closing)
    return { name = name, max = max and tonumber(max), used = used, held = held, left = max and tonumber(max) - used - held - closing }
  end
  local sums = {
    tokens = part('tokens', max_tokens, count(input) + count(output) + count(write) + count(read_) + count(aside_tokens),
      count(reserved_tokens), count(closing_tokens)),
    cost = part('budget', max_cost, count(spent) + count(aside_cost), count(reserved_cost), count(closing_cost)),
  }
  for _, name in ipairs(id and budgets.allowances(id) or {}) do sums[name] = budgets.load_allowance(job, name) end
  return sums
end

local DAY_SECONDS, KEPT_DAYS = 86400, 400
local IN_LEDGER = { input = true, output = true, cache_write = true, cache_read = true, cost = true, estimated = true, unpriced = true }

-- Add amounts by counter to the sums of an agent (nil for none), its job and the fleet. Returns whether there are any.
--   model           of the amounts; `took.aside` has the parts of other models: model -> amounts
function budgets.spend(id, job, took, model)
  local changed, aside = false, took.aside or {}
  took.aside = nil
  if id and took.cost then budgets.count_in(id, job, 'used', took.cost) end
  for name, by in pairs(took) do
    if id then add(agent_key(id), name, by) end
    add(job_key(job), name, by)
    if IN_LEDGER[name] then
      for other, amounts in pairs(aside) do
        if amounts[name] then
          add(P .. ':spent', other .. '|' .. name, amounts[name])
          by = by - amounts[name]
        end
      end
      if by ~= 0 then add(P .. ':spent', model .. '|' .. name, by) end
    else
      tally(name, by)
    end
    changed = true
  end
  return changed
end

-- Keep the state of the ledger if this sweep is the first one of a day; the last one was at `before`.
function budgets.turn_page(before)
  local today = math.floor(NOW / DAY_SECONDS)
  if math.floor(before / DAY_SECONDS) == today then return end
  local page = P .. ':spent:' .. today
  redis.call('HSETNX', P .. ':spent', 'first', today)
  redis.call('COPY', P .. ':spent', page)
  redis.call('EXPIRE', page, KEPT_DAYS * DAY_SECONDS)
end

-- The model in the ledger of a call of an agent.
function budgets.ledger_model(model, rehearsed) return rehearsed and 'rehearsal' or model or 'unknown' end

-- Journal the use of requests that no other entry will report, and add it to the sums.
local function charge(id, job, why, took, model)
  local gen, own, rehearsed = fields(id, 'gen', 'model', 'rehearsed')
  model = model or own
  local usage = { input_tokens = took.input or 0, output_tokens = took.output or 0, cache_creation_input_tokens = took.cache_write or 0,
    cache_read_input_tokens = took.cache_read or 0 }
  agents.append(id, job, agents.journal_length(id) + 1, cjson.encode({ v = 1, kind = 'model_failed', at = NOW, generation = count(gen),
    error = why, error_kind = 'lost', permanent = false, usage = usage, cost_usd = (took.cost or 0) / 1e9,
    estimated_usd = (took.estimated or 0) / 1e9, unpriced_tokens = took.unpriced or 0, model = model or '' }))
  budgets.spend(id, job, took, budgets.ledger_model(model, rehearsed))
end

-- The use of the side requests of an agent's calls, by call, until an entry reports it.
local function side_calls(id)
  local calls = field(id, 'side_calls')
  return calls and cjson.decode(calls) or {}
end

local function keep_side_calls(id, calls)
  if next(calls) then redis.call('HSET', agent_key(id), 'side_calls', cjson.encode(calls)) else redis.call('HDEL', agent_key(id), 'side_calls') end
end

-- Note the use of a call's side requests so far, the one under way as an estimate: {counter: amount, model}; without counters, there is none.
function budgets.note_side_call(id, call, use)
  local calls, model = side_calls(id), use.model
  use.model = nil
  calls[call] = next(use) and { use = use, model = model } or nil
  keep_side_calls(id, calls)
end

-- Entries report the use of these calls' side requests.
function budgets.report_side_calls(id, reported)
  local calls = side_calls(id)
  for _, call in ipairs(reported) do calls[call] = nil end
  keep_side_calls(id, calls)
end

-- Charge an agent that loses its process, or ends, for requests that no entry reports: its next reply, and side requests of its calls.
function budgets.lose_calls(id, job, why, under_way)
  local call = under_way and field(id, 'next_call') or ''
  if call ~= '' then
    charge(id, job, why, cjson.decode(call))
  end
  for _, lost in pairs(side_calls(id)) do charge(id, job, 'a request beside the conversation was lost', lost.use, lost.model) end
  redis.call('HDEL', agent_key(id), 'side_calls')
end

-- Nil if these amounts can be reserved now; 'wait' if they could be once current calls are settled; else the exhausted part.
function budgets.judge(sums, tokens, cost)
  local waits
  for name, part in pairs(sums) do
    local wanted = name == 'tokens' and tokens or cost
    if part.max and wanted > part.left then
      if wanted > part.left + part.held then return part end
      waits = 'wait'
    end
  end
  return waits
end

-- Keep these amounts for the agent's last reply; 0 keeps nothing.
function budgets.keep_closing(id, job, tokens, cost)
  local had_tokens, had_cost = fields(id, 'closing_tokens', 'closing_cost')
  if not had_tokens and tokens == 0 and cost == 0 then return end
  add(job_key(job), 'closing_tokens', tokens - count(had_tokens))
  add(job_key(job), 'closing_cost', cost - count(had_cost))
  budgets.count_in(id, job, 'closing', cost - count(had_cost))
  redis.call('HSET', agent_key(id), 'closing_tokens', tokens, 'closing_cost', cost)
end

-- Wake waiting agents in order while the remaining amounts suffice, and each agent whose amounts can never be met.
function budgets.serve(job)
  local waiting = redis.call('ZRANGE', job_key(job, 'budget'), 0, 99)
  if #waiting == 0 then return end
  local sums, known = budgets.load(job), {}
  for _, id in ipairs(waiting) do
    local tokens, cost = fields(id, 'wait_tokens', 'wait_cost')
    tokens, cost = count(tokens), count(cost)
    if budgets.judge(sums, tokens, cost) == 'wait' then return end
    local mine = { tokens = sums.tokens, cost = sums.cost }
    for _, name in ipairs(budgets.allowances(id)) do
      known[name] = known[name] or budgets.load_allowance(job, name)
      mine[name] = known[name]
    end
    local verdict = budgets.judge(mine, tokens, cost)
    if not verdict then
      -- Its next step reserves them; the agents behind it wait for their settlement.
      for name, part in pairs(mine) do
        local wanted = name == 'tokens' and tokens or cost
        if part.max then part.left, part.held = part.left - wanted, part.held + wanted end
      end
    end
    -- An agent that waits for its allowance blocks no agent behind it.
    if verdict ~= 'wait' then agents.wake(id, 'budget') end
  end
end

at_end(function(job, id)
  budgets.keep_closing(id, job, 0, 0)
  redis.call('HDEL', agent_key(id), 'closing_tokens', 'closing_cost')
  budgets.serve(job)
end)

keep_parts('budget', 'allowances')
