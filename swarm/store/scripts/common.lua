-- Shared by every script: the data model, and the few steps that all of them are made of.
--
-- P                      the key prefix, ARGV[1]
-- P:agent:ID             hash    one agent: state, gen, job, parent, depth, spec, counters, result, what it waits for
-- P:journal:ID           stream  its journal; ids 1-0, 2-0, … chosen by the writer (XADD refuses an id that exists)
-- P:children:ID          set     ids of the agents it spawned
-- P:await:ID             set     children whose end it still waits for while parked
-- P:mail:ID              stream  its mailbox: from, name, kind, body, reply_to; ids by the server; never trimmed
-- P:job:ID               hash    one job: state, root, limits, counters of the whole tree, result
-- P:job:ID:agents        zset    its agents by creation time
-- P:job:ID:running       set     its agents that hold a process now
-- P:job:ID:capped        zset    its queued agents that wait for one of those places (score: -depth, then time)
-- P:job:ID:prefixes      hash    sha256 -> JSON {system, tools}: what the requests of its agents begin with; journals name it
-- P:job:ID:names         hash    name -> agent id; a name is never given to another agent
-- P:job:ID:requests      hash    request id -> JSON {kind, from, to, state, expires}: shutdowns and plans to be approved
-- P:job:ID:team, :board, :answers  its team and task board: shared_board.lua
-- P:job:ID:pad, :page:NAME         its scratchpad: pad.lua
-- P:mail:JOB             stream  the mailbox of the person whose job it is; the job's `unread` counts what lies beyond its `read`
-- P:sent:TOKEN           string  for a while, what was answered about a message from outside: sent again, it is not delivered again
-- P:events:ID            stream  a job's lifecycle events, trimmed
-- P:jobs                 zset    all jobs by creation time
-- P:ready                zset    outbox: queued agents by the time they were queued; whoever queues an agent publishes
--                                it afterwards, and rescue publishes what nobody did
-- P:leases               zset    running agents by the time their lease ends
-- P:timers               zset    parked agents by their deadline
-- P:deadlines            zset    jobs with a wall-time limit, by the time they are ended
--
-- States: queued -> running -> parked -> queued -> ... -> completed | failed | cancelled | timed_out.
-- A terminal state is never overwritten; a message to an agent that ended, but was not cancelled, begins its next run, which
-- its journal tells (`resumed`). Keys are computed, so this needs one Redis, not a Redis Cluster.
--
-- Of an agent's fields: `unread` counts the messages beyond its journal's cursor, `unread_notes` those of them that the runtime
-- wrote; `background` tells that its end is mailed to its parent; `teammate`, that it lives on after a task; `idle`, that it is
-- parked because it has nothing to do; `yielded`, that it gave its process up for others, who come first; `told_*`, how much of
-- its counters its parent has; `earlier*`, the answer of the run that its parent asked for, once it went on because of somebody else.
-- All times are the server's, in Unix seconds.

local P = ARGV[1]
local TIME = redis.call('TIME')
local NOW = tonumber(TIME[1]) + tonumber(TIME[2]) / 1e6
local publish = {}   -- agents that were put on the queue: the caller sends their Celery messages
local kill = {}      -- agents that ran when they were ended: the caller tells their workers

local function agent_key(id) return P .. ':agent:' .. id end
local function journal_key(id) return P .. ':journal:' .. id end
local function children_key(id) return P .. ':children:' .. id end
local function await_key(id) return P .. ':await:' .. id end
local function job_key(id) return P .. ':job:' .. id end
local function field(id, name) return redis.call('HGET', agent_key(id), name) end

local TERMINAL = { completed = true, failed = true, cancelled = true, timed_out = true }

local function emit(job, kind, id, ...)
  redis.call('XADD', P .. ':events:' .. job, 'MAXLEN', '~', 20000, '*', 'kind', kind, 'agent', id, ...)
end

local function put_on_queue(id)
  redis.call('HSET', agent_key(id), 'state', 'queued')
  redis.call('ZADD', P .. ':ready', NOW, id)
  publish[#publish + 1] = id
end

-- Give back the process an agent held, and its place among the job's running agents to whoever waits for one. One that ends
-- while it is queued may have been given a place that it did not take, so it is the places that are counted.
local function leave(id, job)
  redis.call('ZREM', P .. ':leases', id)
  redis.call('SREM', job_key(job) .. ':running', id)
  local most = tonumber(redis.call('HGET', job_key(job), 'max_running') or '1000000')
  if redis.call('SCARD', job_key(job) .. ':running') < most then
    local next = redis.call('ZPOPMIN', job_key(job) .. ':capped')
    if next[1] and field(next[1], 'state') == 'queued' then
      redis.call('ZADD', P .. ':ready', NOW, next[1])
      publish[#publish + 1] = next[1]
    end
  end
end

-- What a parked agent waits for, besides its children and the time.
local WAITS = { 'wait_mode', 'wait_mail', 'wait_tasks', 'wait_question', 'idle' }

local function wake(id, why)
  local record = redis.call('HMGET', agent_key(id), 'state', 'job')
  if record[1] ~= 'parked' then return false end
  redis.call('DEL', await_key(id))
  redis.call('ZREM', P .. ':timers', id)
  redis.call('ZREM', job_key(record[2]) .. ':team:idle', id)
  redis.call('HDEL', agent_key(id), unpack(WAITS))
  put_on_queue(id)
  emit(record[2], 'woken', id, 'why', why)
  return true
end

-- The record counts its journal's entries, so that an append never has to read one back.
local function journal_length(id) return tonumber(field(id, 'length') or '0') end

local function append(id, number, entry)
  redis.call('XADD', journal_key(id), string.format('%d-0', number), 'e', entry)
  redis.call('HSET', agent_key(id), 'length', number)
end

-- Give back what an agent set aside of the job's tokens and money and did not settle.
local function give_back(id, job)
  local held = redis.call('HMGET', agent_key(id), 'reserved_tokens', 'reserved_cost')
  -- Not '-' .. amount: '-0' is no integer to Redis.
  if held[1] then redis.call('HINCRBY', job_key(job), 'reserved_tokens', string.format('%.0f', 0 - tonumber(held[1]))) end
  if held[2] then redis.call('HINCRBY', job_key(job), 'reserved_cost', string.format('%.0f', 0 - tonumber(held[2]))) end
  if held[1] or held[2] then redis.call('HDEL', agent_key(id), 'reserved_tokens', 'reserved_cost') end
end

-- Put a message into a mailbox, and wake its owner if that is what it waits for. `to` may be a job: the person's mailbox.
-- Answers the message's id there.
local function deliver(to, from, name, kind, body, reply_to)
  local id = redis.call('XADD', P .. ':mail:' .. to, '*', 'from', from, 'name', name, 'kind', kind, 'body', body,
    'reply_to', reply_to or '')
  if redis.call('EXISTS', agent_key(to)) == 0 then
    redis.call('HINCRBY', job_key(to), 'unread', 1)
    emit(to, 'message', from, 'to', 'user', 'sort', kind, 'id', id)
    return id
  end
  local note = kind == 'notification'
  redis.call('HINCRBY', agent_key(to), 'unread', 1)
  if note then redis.call('HINCRBY', agent_key(to), 'unread_notes', 1) end
  local record = redis.call('HMGET', agent_key(to), 'wait_mail', 'job')
  if not note then emit(record[2], 'message', from, 'to', to, 'sort', kind, 'id', id) end
  if record[1] == 'any' or (record[1] == 'talk' and not note) then wake(to, 'mail') end
  return id
end

-- The keys that live and expire with a job.
local function each_key(job, apply)
  for _, member in ipairs(redis.call('ZRANGE', job_key(job) .. ':agents', 0, -1)) do
    apply(agent_key(member)); apply(journal_key(member)); apply(children_key(member))
    apply(P .. ':outputs:' .. member); apply(P .. ':mail:' .. member)
  end
  for _, part in ipairs({ '', ':agents', ':names', ':requests', ':team', ':team:idle', ':board', ':board:text', ':board:open',
    ':board:owners', ':board:offers', ':board:waiting', ':answers', ':pad', ':questions', ':rules', ':prefixes' }) do
    apply(job_key(job) .. part)
  end
  for _, question in ipairs(redis.call('SMEMBERS', job_key(job) .. ':questions')) do apply(P .. ':question:' .. question) end
  for _, page in ipairs(redis.call('HKEYS', job_key(job) .. ':pad')) do apply(job_key(job) .. ':page:' .. page) end
  apply(P .. ':events:' .. job); apply(P .. ':mail:' .. job)
end

-- Begin the next run of an agent that ended: its journal goes on where it stopped. The root's next run reopens its job.
local function resume(id, job, parent)
  local record = redis.call('HMGET', agent_key(id), 'gen', 'state', 'text', 'reason', 'ended', 'background')
  if parent ~= '' and record[2] == 'completed' and record[6] ~= '1' and redis.call('HEXISTS', agent_key(id), 'earlier_ended') == 0 then
    -- Its parent may not have collected it yet.
    redis.call('HSET', agent_key(id), 'earlier', record[3], 'earlier_reason', record[4], 'earlier_ended', record[5])
  end
  append(id, journal_length(id) + 1, cjson.encode({ v = 1, kind = 'resumed', at = NOW,
    generation = tonumber(record[1] or '0') }))
  redis.call('HDEL', agent_key(id), 'ended', 'deaths', 'death_at', 'data')
  redis.call('HSET', agent_key(id), 'reason', '')
  if parent == '' then
    redis.call('HSET', job_key(job), 'state', 'running', 'reason', '')
    redis.call('HDEL', job_key(job), 'ended', 'deadline', 'data')
    each_key(job, function(key) redis.call('PERSIST', key) end)
  end
  put_on_queue(id)
  emit(job, 'resumed', id)
end

local COUNTERS = { 'turns', 'tools', 'input', 'output', 'cache_write', 'cache_read', 'cost' }

-- `child` has ended, or has nothing to do: its parent is woken if this is what it waited for.
local function stop_awaiting(parent, child)
  if redis.call('SREM', await_key(parent), child) == 1
    and (field(parent, 'wait_mode') == 'any' or redis.call('SCARD', await_key(parent)) == 0) then
    wake(parent, 'children')
  end
end

-- What the mail about an agent's end says, as data: the receiver's runtime writes the words.
local function notice_of_end(id, state, text, reason)
  local record = redis.call('HMGET', agent_key(id), 'label', 'name', 'tools', 'turns', 'created', 'input', 'output',
    'cache_write', 'cache_read', 'below_input', 'below_output', 'below_cache_write', 'below_cache_read')
  local tokens = 0
  for i = 6, 13 do tokens = tokens + tonumber(record[i] or '0') end
  return cjson.encode({ what = 'ended', agent = id, label = record[1] or '', name = record[2] or '', state = state,
    text = text, reason = reason, tools = tonumber(record[3] or '0'), turns = tonumber(record[4] or '0'),
    tokens = tokens, seconds = NOW - tonumber(record[5] or NOW) })
end

local end_agent
local release_tasks  -- in shared_board.lua
local void_question  -- in shared_questions.lua

-- End everything below `id` (one way: never upwards, never sideways), also what went on below one that has ended.
local function end_below(id, reason)
  for _, child in ipairs(redis.call('SMEMBERS', children_key(id))) do
    if TERMINAL[field(child, 'state') or 'completed'] then
      end_below(child, reason)
    else
      end_agent(child, 'cancelled', '', reason, true)
    end
  end
end

-- Add what an agent has counted since it last told to its parent's sums; a parent that has ended tells it on at once.
local function tell_sums(id, parent)
  while parent and parent ~= '' do
    local changed = false
    for _, name in ipairs(COUNTERS) do
      local sums = redis.call('HMGET', agent_key(id), name, 'below_' .. name, 'told_' .. name)
      local own = tonumber(sums[1] or '0') + tonumber(sums[2] or '0')
      local new = own - tonumber(sums[3] or '0')
      if new ~= 0 then
        redis.call('HINCRBY', agent_key(parent), 'below_' .. name, string.format('%.0f', new))
        redis.call('HSET', agent_key(id), 'told_' .. name, string.format('%.0f', own))
        changed = true
      end
    end
    if not changed or not TERMINAL[field(parent, 'state')] then return end
    id, parent = parent, field(parent, 'parent')
  end
end

-- End an agent: its last journal entry is written here unless the caller did, its subtree ends with it, its counters go
-- up to its parent exactly once, and the parent is woken if this is what it waited for.
end_agent = function(id, state, text, reason, write)
  local record = redis.call('HMGET', agent_key(id), 'state', 'job', 'parent', 'gen', 'background', 'label', 'name')
  local before, job, parent = record[1], record[2], record[3]
  if not before or TERMINAL[before] then return false end
  if write then
    append(id, journal_length(id) + 1, cjson.encode({ v = 1, kind = 'finished', at = NOW,
      generation = tonumber(record[4] or '0'), state = state, text = text, reason = reason }))
  end
  redis.call('HSET', agent_key(id), 'state', state, 'ended', NOW, 'text', text, 'reason', reason, 'activity', '')
  void_question(id)
  redis.call('HDEL', agent_key(id), unpack(WAITS))
  redis.call('DEL', await_key(id))
  redis.call('ZREM', P .. ':timers', id)
  redis.call('ZREM', P .. ':ready', id)
  redis.call('ZREM', job_key(job) .. ':capped', id)
  redis.call('ZREM', job_key(job) .. ':team:idle', id)
  give_back(id, job)
  if before == 'running' then kill[#kill + 1] = id end
  leave(id, job)
  end_below(id, 'its parent ended: ' .. state)
  release_tasks(job, id)
  emit(job, 'ended', id, 'state', state, 'reason', reason)
  if parent and parent ~= '' then
    tell_sums(id, parent)
    if record[5] == '1' and not TERMINAL[field(parent, 'state') or 'completed'] then
      deliver(parent, id, record[7] or id, 'notification', notice_of_end(id, state, text, reason))
    end
    stop_awaiting(parent, id)
  else
    redis.call('HSET', job_key(job), 'state', state, 'ended', NOW, 'text', text, 'reason', reason)
    redis.call('ZREM', P .. ':deadlines', job)
    emit(job, 'job_ended', id, 'state', state)
    local keep = math.floor(tonumber(redis.call('HGET', job_key(job), 'retention') or '604800'))
    each_key(job, function(key) redis.call('EXPIRE', key, keep) end)
  end
  return true
end

-- Every write of a segment begins with this: nil when generation `gen` still owns the agent and `number` (if given) is its
-- journal's next entry; else the refusal. 'repeat' means that this very step has been done already: a client sends a script
-- again when its connection broke before the answer came, and nobody but the owner of a generation writes under it, except
-- an end from outside. So a step is a repeat only in one of the states that it leaves the agent in (`leaves`).
local function refusal(id, gen, leaves, number, count)
  local record = redis.call('HMGET', agent_key(id), 'state', 'gen', 'length')
  local state, length = record[1], tonumber(record[3] or '0')
  if state == 'cancelled' then return 'cancelled' end
  if record[2] ~= gen then return 'stale' end
  if leaves[state] and (not number or length == number + count - 1) then return 'repeat' end
  if state ~= 'running' or (number and length ~= number - 1) then return 'stale' end
  return nil
end
