-- The steps of summaries for people: summaries_common.lua.

local MOST, ROOM, SHARE, LOST_SECONDS = 2000, 4, 0.05, 120

-- Reserve a summary's use if one is due: none of this agent is being made, its journal has grown since the last one, and `interval`
-- has passed.
--   length    of the journal; must exceed the length at the last summary
--   interval  minimum seconds since the last one
--   lost      JSON: its use if it is lost, and its model
-- Returns 1, or 0 if none is due.
step('begin_summary', function(id, length, interval, tokens, cost, lost)
  local job, at, known, held = fields(id, 'job', 'summary_at', 'summary_length', 'summary_tokens')
  if not job then return 0 end
  local age = at and NOW - tonumber(at)
  -- A summary under way for so long died with its process.
  if held and age < LOST_SECONDS then return 0 end
  if held then summaries.lose(id, job) end
  if at and (age < tonumber(interval) or count(known) >= tonumber(length)) then return 0 end
  tokens, cost = tonumber(tokens), tonumber(cost)
  local made, all_tokens, all_cost, max_tokens, max_cost =
    job_fields(job, 'summaries', 'summaries_tokens', 'summaries_cost', 'max_tokens', 'max_cost')
  if count(made) >= MOST then return 0 end
  if max_tokens and count(all_tokens) + tokens > tonumber(max_tokens) * SHARE then return 0 end
  if max_cost and count(all_cost) + cost > tonumber(max_cost) * SHARE then return 0 end
  if budgets.judge(budgets.load(job), tokens * ROOM, cost * ROOM) then return 0 end
  add(job_key(job), 'aside_tokens', tokens)
  add(job_key(job), 'aside_cost', cost)
  redis.call('HSET', agent_key(id), 'summary_at', NOW, 'summary_length', length, 'summary_tokens', tokens, 'summary_cost', cost,
    'summary_call', lost)
  return 1
end)

-- Publish a summary, and settle its use.
--   kind      'progress' of the agent; 'title' or 'digest' of its job
--   text      '' if there is none, because the call failed
--   counters  JSON: its use, added to the job's sums, and its model
step('show_summary', function(id, kind, text, counters)
  local job = field(id, 'job')
  if not job then return 0 end
  summaries.give_back(id, job)
  summaries.pay(id, job, cjson.decode(counters))
  if text == '' then return 0 end
  if kind == 'progress' then
    if has_ended(id) then return 0 end
    redis.call('HSET', agent_key(id), 'summary', text)
  else
    redis.call('HSET', job_key(job), kind, text)
  end
  emit(job, 'summary', id, 'sort', kind, 'text', text)
  return 1
end)
