-- Who is sent for next. A message of the queue names its agent, so it is decided here, before there is one.
--
-- P:job:ID:line    zset    its queued agents that nobody has been sent for, the next one first
-- P:job:ID:called  set     its queued agents for whom a message is out: each has one of the job's places already
-- P:ready          zset    the called agents of all jobs by the time of their message: the outbox, which rescue looks through
-- P:turns          zset    jobs that have somebody in line and a place for it, by their turn: what they were given, by their weight
-- P:turn           string  the turn that was served last; a job that had nobody in line begins there
-- P:slots          hash    worker -> how many agents it can run
-- P:staff          zset    workers by when they last said so
-- P:offers         hash    worker -> what it offers that not every worker has, parted by spaces: `tool:charge_card tag:gpu`
-- P:aside          zset    agents left to those who can serve them, by when they are in line again in any case: aside.lua
-- P:aside:news     string  grows with each of them: nothing is new to who has looked before
-- P:bell:WORKER    list    an entry: somebody was set aside whom it can serve
--
-- An agent's `wants` are what of that it needs. Where not everybody offers it, it is set aside instead of being sent for: those who do
-- offer it fetch as many as they have processes for, so nobody else is counted.
--
-- Only few more are called than can run at once, so whoever comes, of whatever job, soon has its turn. Whoever puts an agent in line
-- or makes room calls the next ones in the same step, and publishes them; the sweep does for those that died before.

-- How many are called ahead where no worker is known yet.
local CALLED_AHEAD = 16
local MOST_CALLS = 200
local ASIDE_SECONDS = 30
local LONGEST_ASIDE_SECONDS = 600

-- Woken agents come before fresh ones, deeper before shallower: trees finish instead of widening. Who gave its process up for others is
-- in line like a fresh root, or some that wait actively for those not yet started would keep them from starting.
function admission.rank(id)
  local gen, depth, yielded = fields(id, 'gen', 'depth', 'yielded')
  local fresh = yielded or count(gen) == 0
  if yielded then depth = 0 end
  in_line = in_line + 1
  return (fresh and 1e12 or 0) + (64 - count(depth)) * 1e10 + NOW - 1.7e9 + in_line * 0.0005
end

function admission.places_left(job)
  local most = tonumber(job_field(job, 'max_running') or '1000000')
  return most - redis.call('SCARD', job_key(job, 'running')) - redis.call('SCARD', job_key(job, 'called'))
end

-- Whether a job has its turn depends on its line and its places: to be called when either has changed.
function admission.line_up(job)
  moved = true
  if redis.call('EXISTS', job_key(job, 'line')) == 0 or admission.places_left(job) <= 0 then
    redis.call('ZREM', P .. ':turns', job)
  elseif not redis.call('ZSCORE', P .. ':turns', job) then
    local turn = math.max(count(job_field(job, 'turn')), count(redis.call('GET', P .. ':turn')))
    redis.call('ZADD', P .. ':turns', turn, job)
  end
end

function admission.put_on_queue(id)
  local job = field(id, 'job')
  redis.call('HSET', agent_key(id), 'state', 'queued', 'queued', NOW)
  redis.call('ZADD', job_key(job, 'line'), admission.rank(id), id)
  admission.line_up(job)
end

-- It is not in line, nor called, nor aside, nor left to its host any more.
function admission.leave_queue(id, job)
  redis.call('ZREM', job_key(job, 'line'), id)
  redis.call('SREM', job_key(job, 'called'), id)
  redis.call('ZREM', P .. ':ready', id)
  redis.call('ZREM', P .. ':aside', id)
  redis.call('ZREM', P .. ':near', id)
end

-- Give back what an agent set aside of the job's tokens and money and did not settle.
function admission.give_back(id, job)
  local tokens, cost = fields(id, 'reserved_tokens', 'reserved_cost')
  if tokens then subtract(job_key(job), 'reserved_tokens', tokens) end
  if cost then subtract(job_key(job), 'reserved_cost', cost) end
  if tokens or cost then redis.call('HDEL', agent_key(id), 'reserved_tokens', 'reserved_cost') end
end

-- Give back the process an agent held, and its place among the job's running agents, to whoever is next.
function admission.leave(id, job)
  redis.call('ZREM', P .. ':leases', id)
  -- Whoever has no process makes no call.
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
  -- A process that becomes free should find a message, so some are called ahead.
  return slots + math.max(2, math.floor(slots / 4)) - redis.call('ZCARD', P .. ':leases') - out
end

-- Leave a queued agent that is in no line to those who can serve it, for so long, twice as long each time.
function admission.lay_aside(id, seconds)
  local times = redis.call('HINCRBY', agent_key(id), 'asides', 1)
  redis.call('ZADD', P .. ':aside', NOW + math.min(LONGEST_ASIDE_SECONDS, seconds * 2 ^ (times - 1)), id)
  redis.call('INCR', P .. ':aside:news')
end

-- The workers that take agents now and offer what one wants; false if all do. Workers that say nothing offer nothing.
local function who_offers(wants)
  if not wants or wants == '' then return false end
  if once[wants] ~= nil then return once[wants] end
  local found, all = {}, true
  for _, worker in ipairs(redis.call('HKEYS', P .. ':slots')) do
    local offers, able = ' ' .. (redis.call('HGET', P .. ':offers', worker) or '') .. ' ', true
    for want in string.gmatch(wants, '%S+') do
      able = able and string.find(offers, ' ' .. want .. ' ', 1, true) ~= nil
    end
    if able then found[#found + 1] = worker end
    all = all and able
  end
  once[wants] = not all and found
  return once[wants]
end

-- Have these workers look at once who was set aside. Whoever has gone leaves no bell.
local function ring_bells(workers)
  for _, worker in ipairs(workers) do
    local bell = P .. ':bell:' .. worker
    if redis.call('EXISTS', bell) == 0 then redis.call('RPUSH', bell, 1) end
    redis.call('EXPIRE', bell, 60)
  end
end

function admission.call_next()
  local room = room_for_calls()
  for _ = 1, MOST_CALLS do
    if room <= 0 then return end
    local job, turn = unpack(redis.call('ZRANGE', P .. ':turns', 0, 0, 'WITHSCORES'))
    if not job then return end
    local id = redis.call('ZPOPMIN', job_key(job, 'line'))[1]
    -- One that is about to be ended waits for that outside of the line.
    local waits = id and field(id, 'state') == 'queued' and not is_doomed(id)
    local able = waits and who_offers(field(id, 'wants'))
    if able then
      admission.lay_aside(id, ASIDE_SECONDS)
      ring_bells(able)
    elseif waits then
      redis.call('SADD', job_key(job, 'called'), id)
      redis.call('ZADD', P .. ':ready', NOW, id)
      publish[#publish + 1], room = id, room - 1
      local next = string.format('%.6f', turn + 1 / tonumber(job_field(job, 'weight') or '1'))
      redis.call('SET', P .. ':turn', turn)
      redis.call('HSET', job_key(job), 'turn', next)
      redis.call('ZADD', P .. ':turns', next, job)
    end
    admission.line_up(job)
  end
end
