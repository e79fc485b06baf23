-- Admission: selects the next agent to call. A queued message names its agent, so this is decided before the message exists.
--
-- P:job:ID:line    zset    its queued agents that were not called, the next one first
-- P:job:ID:called  set     its queued agents with a message: each already has one of the job's places
-- P:ready          zset    the called agents of all jobs by the time of their message: the outbox, which rescue checks
-- P:turns          zset    jobs with an agent in line and a place for it, by turn: past calls divided by weight
-- P:turn           string  the last served turn; a job whose line was empty begins there
-- P:slots          hash    worker -> the number of agents it can run
-- P:staff          zset    workers by their last announcement of slots
-- P:offers         hash    worker -> its capabilities that not every worker has, separated by spaces: `tool:charge_card tag:gpu`
-- P:aside          zset    agents left to workers that can run them, by the time they return to the line: aside.lua
-- P:aside:news     string  grows with each of them, so a worker can skip a repeated look
-- P:bell:WORKER    list    an entry: an agent was set aside that this worker can run
--
-- An agent's `wants` are the capabilities it needs from that list. If not every worker offers them, the agent is set aside instead of
-- called. Workers that offer them fetch as many agents as they have processes, so other workers are not counted.
--
-- Only slightly more agents are called than can run at once, so a new agent of any job soon has its turn. A step that puts an agent in line
-- or makes room also calls and publishes the next ones. The sweep does this for callers that died before.

-- Number of agents called ahead while no worker is known.
local CALLED_AHEAD = 16
local MOST_CALLS = 200
local ASIDE_SECONDS = 30
local LONGEST_ASIDE_SECONDS = 600
local LEVEL_SECONDS = 20

-- A place in a line of agents at work: deeper before shallower, so that trees finish. A level counts as some seconds of waiting, so that
-- no agent starves, and a teammate ranks like its lead.
function admission.place(id)
  local depth, teammate = fields(id, 'depth', 'teammate')
  in_line = in_line + 1
  return NOW - 1.7e9 - (count(depth) - count(teammate)) * LEVEL_SECONDS + in_line * 0.0005
end

-- Woken agents come before fresh ones, and of these deeper before shallower: trees finish instead of widening. An agent that yielded its
-- process is in line like a fresh root; otherwise agents that poll could keep the awaited ones from starting.
function admission.rank(id)
  local gen, depth, yielded = fields(id, 'gen', 'depth', 'yielded')
  if not yielded and count(gen) > 0 then return admission.place(id) end
  in_line = in_line + 1
  return 1e12 + (64 - (yielded and 0 or count(depth))) * 1e10 + NOW - 1.7e9 + in_line * 0.0005
end

function admission.places_left(job)
  local most = tonumber(job_field(job, 'max_running') or '1000000')
  return most - redis.call('SCARD', job_key(job, 'running')) - redis.call('SCARD', job_key(job, 'called'))
end

-- A job's turn depends on its line and its places: call this when either has changed.
function admission.line_up(job)
  moved = true
  if redis.call('EXISTS', job_key(job, 'line')) == 0 or admission.places_left(job) <= 0 then
    redis.call('ZREM', P .. ':turns', job)
  elseif not redis.call('ZSCORE', P .. ':turns', job) then
    local turn = math.max(count(job_field(job, 'turn')), count(redis.call('GET', P .. ':turn')))
    redis.call('ZADD', P .. ':turns', turn, job)
  end
end

-- After one or more of these, call `line_up`.
function admission.put_in_line(id, job)
  redis.call('HSET', agent_key(id), 'state', 'queued', 'queued', NOW)
  redis.call('ZADD', job_key(job, 'line'), admission.rank(id), id)
end

function admission.put_on_queue(id)
  local job = field(id, 'job')
  admission.put_in_line(id, job)
  admission.line_up(job)
end

-- Remove an agent from the line, the called agents, the outbox, those set aside, and those left to their host.
function admission.leave_queue(id, job)
  redis.call('ZREM', job_key(job, 'line'), id)
  redis.call('SREM', job_key(job, 'called'), id)
  redis.call('ZREM', P .. ':ready', id)
  redis.call('ZREM', P .. ':aside', id)
  redis.call('ZREM', P .. ':near', id)
end

-- Return an agent's unsettled reservation of the job's tokens and money.
function admission.give_back(id, job)
  local tokens, cost = fields(id, 'reserved_tokens', 'reserved_cost')
  if tokens then subtract(job_key(job), 'reserved_tokens', tokens) end
  if cost then
    subtract(job_key(job), 'reserved_cost', cost)
    budgets.count_in(id, job, 'held', -tonumber(cost))
  end
  if tokens or cost then redis.call('HDEL', agent_key(id), 'reserved_tokens', 'reserved_cost') end
end

-- Return an agent's process, and its place among the job's running agents, to the next one.
function admission.leave(id, job)
  redis.call('ZREM', P .. ':leases', id)
  -- An agent without a process makes no call.
  admission.give_back(id, job)
  budgets.serve(job)
  governor.leave(id, job)
  redis.call('SREM', job_key(job, 'running'), id)
  admission.line_up(job)
end

local function room_for_calls()
  local slots = 0
  for _, one in ipairs(redis.call('HVALS', P .. ':slots')) do slots = slots + one end
  local out = redis.call('ZCARD', P .. ':ready')
  if slots == 0 then return CALLED_AHEAD - out end
  -- A free process should find a message, so some agents are called ahead.
  return slots + math.max(2, math.floor(slots / 4)) - redis.call('ZCARD', P .. ':leases') - out
end

-- Leave a queued agent that is in no line to workers that can run it, for `seconds`; doubled each time.
function admission.lay_aside(id, seconds)
  local times = redis.call('HINCRBY', agent_key(id), 'asides', 1)
  redis.call('ZADD', P .. ':aside', NOW + math.min(LONGEST_ASIDE_SECONDS, seconds * 2 ^ (times - 1)), id)
  redis.call('INCR', P .. ':aside:news')
end

-- The workers that take agents now and offer these wants; false if all do. Workers without an announcement offer nothing.
local function who_offers(wants)
  if not wants or wants == '' then return false end
  if once[wants] ~= nil then return once[wants] end
  local found, all, offered, listed = {}, true, {}, redis.call('HGETALL', P .. ':offers')
  for i = 1, #listed, 2 do offered[listed[i]] = listed[i + 1] end
  for _, worker in ipairs(redis.call('HKEYS', P .. ':slots')) do
    local offers, able = ' ' .. (offered[worker] or '') .. ' ', true
    for want in string.gmatch(wants, '%S+') do
      able = able and string.find(offers, ' ' .. want .. ' ', 1, true) ~= nil
    end
    if able then found[#found + 1] = worker end
    all = all and able
  end
  once[wants] = not all and found
  return once[wants]
end

-- Have these workers check at once for agents set aside. A bell of a vanished worker expires.
local function ring_bells(workers)
  for _, worker in ipairs(workers) do
    local bell = P .. ':bell:' .. worker
    if redis.call('EXISTS', bell) == 0 then redis.call('RPUSH', bell, 1) end
    redis.call('EXPIRE', bell, 60)
  end
end

-- An agent's wake-up data, for its message: {id, state, job, parent, depth, generation, definition, label, needs, the job's max depth,
-- its files}; unknown values are nil.
function admission.wakeup(id)
  local record = redis.call('HMGET', agent_key(id), 'state', 'job', 'parent', 'depth', 'gen', 'definition', 'label', 'needs')
  local job = record[2]
  local max_depth, files
  if job then max_depth, files = job_fields(job, 'max_depth', 'files') end
  return { id, record[1], job, record[3], record[4], record[5], record[6], record[7], record[8], max_depth or false, files or false }
end

function admission.call_next()
  local room = room_for_calls()
  for _ = 1, MOST_CALLS do
    if room <= 0 then return end
    local job, turn = unpack(redis.call('ZRANGE', P .. ':turns', 0, 0, 'WITHSCORES'))
    if not job then return end
    local id = redis.call('ZPOPMIN', job_key(job, 'line'))[1]
    -- An agent about to be ended waits for that outside of the line.
    local waits = id and field(id, 'state') == 'queued' and not is_doomed(id)
    local able = waits and who_offers(field(id, 'wants'))
    if able then
      admission.lay_aside(id, ASIDE_SECONDS)
      ring_bells(able)
    elseif waits then
      redis.call('SADD', job_key(job, 'called'), id)
      redis.call('ZADD', P .. ':ready', NOW, id)
      publish[#publish + 1], room = admission.wakeup(id), room - 1
      local next = string.format('%.6f', turn + 1 / tonumber(job_field(job, 'weight') or '1'))
      redis.call('SET', P .. ':turn', turn)
      redis.call('HSET', job_key(job), 'turn', next)
      redis.call('ZADD', P .. ':turns', next, job)
    end
    admission.line_up(job)
  end
end
