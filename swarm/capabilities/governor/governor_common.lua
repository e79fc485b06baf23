-- The governor: a rate limiter that decides which agent of the fleet may ask the model next. Limits apply to a class: a credential and a
-- kind of model. The fleet keeps an account per class: buckets of requests, input and output tokens that fill continuously, a time before
-- which no agent may ask (after a 429), and a window of concurrent requests (after a storm of 529s). An agent that may ask holds a slot.
--
-- P:governor           zset    classes by the time of their last request
-- P:governor:due       zset    classes with agents in line, by when there may be room for the first
-- P:class:C            string  a class's account, JSON: see `account`
-- P:class:C:slots      zset    agents that hold a slot, by its start: each runs, or was woken for it and is queued
-- P:class:C:turns      zset    jobs with agents in line, by their turn: their use divided by their weight (start-time fair queueing)
-- P:class:C:line:JOB   zset    a job's agents in line, the next one first: deeper before shallower, so that trees finish
-- Of an agent: `slot`, JSON {class, input, output, at}, the slot it holds, and from when on it may ask; `asks`, JSON, the wish it is in
-- line with: {class, input, cold, prefix}; `opens`, the prefix that its next reply writes: sharing_common.lua
-- Of a job: `turn:C`.
--
-- A slot lasts as long as the agent's process, or the way to one: an agent that parks, ends or dies returns its slot.

local TARGET = 0.97           -- of a stated limit: clocks and estimates differ
local PATIENCE_SECONDS = 1    -- an agent sleeps through a shorter wait: it takes a slot now that begins then
local AHEAD_SECONDS = 0.25    -- a woken agent needs a moment to get a process
local FIRST_WINDOW = 4        -- concurrent requests of an unknown class
local WIDEST = 1000
local NARROWEST = 4
local LEAST = { 30, 20000, 5000 }  -- a minute, whatever was refused: the first moments may teach wrong limits
governor.CLASS_SECONDS = 7 * 86400
local UNBOUND = 1e15

function governor.class_key(c, part) return P .. ':class:' .. c .. (part and ':' .. part or '') end

-- A class's current limits per minute: requests, input, output.
function governor.rates_of(a)
  local rates = {}
  for n = 1, 3 do
    if a.mode == 'blind' then rates[n] = a.cap[n]
    elseif a.mode == 'told' and a.limit[n] > 0 then rates[n] = a.limit[n] * TARGET * a.share
    else rates[n] = UNBOUND end
  end
  return rates
end

-- The account of a class at the current time; the same table during one call.
--   mode        'new': unknown; 'told': the server states limits; 'blind': it does not
--   limit, cap  per minute: stated limits (0: not stated), and limits learned from refusals; share: the part that other users leave us
--   level, t    the buckets' levels at time t; may be below zero
--   hold        no requests before this time; rounds: consecutive refusals without a stated time
--   window      most concurrent requests; half: below it the window grows quickly; cut, grown: times of the last change
--   good, bad   recent answers and overloads, fading within seconds; seen: their time
--   used, since use since then; slack: how full the server's buckets may have been then, 0 … 1
--   asked, refused  requests and 429s, fading within half a minute
--   output      tokens that a reply has, on average
--   sent, turns, limited, overloaded   total counts
function governor.account(c)
  local a = once['class:' .. c]
  if a then return a end
  local known = redis.call('GET', governor.class_key(c))
  a = known and cjson.decode(known) or {
    mode = 'new', limit = { 0, 0, 0 }, cap = { UNBOUND, UNBOUND, UNBOUND }, share = 1, level = { UNBOUND, UNBOUND, UNBOUND }, t = NOW, hold = 0, rounds = 0,
    window = FIRST_WINDOW, half = 0, cut = 0, grown = 0, good = 0, bad = 0, seen = NOW, used = { 0, 0, 0 }, since = NOW, slack = 1, asked = 0,
    refused = 0, refused_at = 0, output = 800, sent = 0, turns = 0, limited = 0, overloaded = 0 }
  a.class = c
  local rates = governor.rates_of(a)
  for n = 1, 3 do a.level[n] = math.min(rates[n], a.level[n] + math.max(0, NOW - a.t) * rates[n] / 60) end
  a.t = NOW
  once['class:' .. c] = a
  return a
end

function governor.save(a)
  redis.call('SET', governor.class_key(a.class), cjson.encode(a), 'EX', governor.CLASS_SECONDS)
end

-- Seconds until so much can be taken.
function governor.seconds_until(a, need)
  local rates, seconds = governor.rates_of(a), math.max(0, a.hold - NOW)
  for n = 1, 3 do
    -- No bucket holds more than its size: a larger request waits until it is full.
    seconds = math.max(seconds, (math.min(need[n], rates[n]) - a.level[n]) * 60 / rates[n])
  end
  return seconds
end

function governor.in_flight(a) return redis.call('ZCARD', governor.class_key(a.class, 'slots')) end

-- Whether one more agent may ask now. An agent that must wait for a process has no use for a slot.
local function has_width(a)
  local processes = 0
  for _, one in ipairs(redis.call('HVALS', P .. ':slots')) do processes = processes + one end
  local most = processes > 0 and math.min(a.window, 1.25 * processes + 2) or a.window
  return governor.in_flight(a) < most
end

local function need_of(a, reservation)
  -- The cached beginning of a request is not counted.
  return { 1, reservation.input + (reservation.opens and reservation.cold or 0), a.output }
end

local function take(a, id, need, at)
  for n = 1, 3 do a.level[n] = a.level[n] - need[n] end
  a.sent = a.sent + 1
  redis.call('ZADD', governor.class_key(a.class, 'slots'), NOW, id)
  redis.call('HSET', agent_key(id), 'slot', cjson.encode({ class = a.class, input = need[2], output = need[3], at = at }))
end

-- The slot that an agent was woken with, JSON or ''; requests may have been forbidden since.
function governor.slot_of(id)
  local document = field(id, 'slot')
  if not document then return '' end
  local slot = cjson.decode(document)
  slot.at = math.max(slot.at, governor.account(slot.class).hold)
  return cjson.encode(slot)
end

-- A job's next turn after such use: input counts less than output, as in the provider's prices.
local function charge(a, job, need, turn)
  local weight = tonumber(job_field(job, 'weight') or '1')
  a.virtual = math.max(a.virtual or 0, turn)
  local next = turn + (0.2 * need[2] + need[3]) / weight
  redis.call('HSET', job_key(job), 'turn:' .. a.class, string.format('%.3f', next))
  return next
end

local function turn_of(a, job)
  return math.max(a.virtual or 0, tonumber(job_field(job, 'turn:' .. a.class) or '0'))
end

local function leave_line(id, job, reservation)
  local line = governor.class_key(reservation.class, 'line:' .. job)
  redis.call('HDEL', agent_key(id), 'asks')
  if redis.call('ZREM', line, id) == 1 and redis.call('EXISTS', line) == 0 then
    redis.call('ZREM', governor.class_key(reservation.class, 'turns'), job)
  end
end

function governor.enter_line(a, id, job, reservation)
  in_line = in_line + 1
  local place = (64 - count(field(id, 'depth'))) * 1e10 + NOW - 1.7e9 + in_line * 0.0005
  redis.call('ZADD', governor.class_key(a.class, 'line:' .. job), 'NX', place, id)
  redis.call('ZADD', governor.class_key(a.class, 'turns'), 'NX', turn_of(a, job), job)
  redis.call('HSET', agent_key(id), 'asks', cjson.encode(reservation))
end

-- Give slots to agents in line while there is room, and wake those that are parked.
function governor.serve(a)
  local turns = governor.class_key(a.class, 'turns')
  for _ = 1, 100 do
    local job, turn = unpack(redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES'))
    if not job then
      redis.call('ZREM', P .. ':governor:due', a.class)
      break
    end
    local id = redis.call('ZRANGE', governor.class_key(a.class, 'line:' .. job), 0, 0)[1]
    local asks = id and field(id, 'asks')
    if not asks then
      -- The agent's record or the line is gone.
      if id then redis.call('ZREM', governor.class_key(a.class, 'line:' .. job), id) end
      if redis.call('EXISTS', governor.class_key(a.class, 'line:' .. job)) == 0 then redis.call('ZREM', turns, job) end
    else
      local reservation = cjson.decode(asks)
      local need = need_of(a, reservation)
      local seconds = governor.seconds_until(a, need)
      -- A window usually opens when a call ends; this check now and then is a fallback.
      if not has_width(a) then seconds = math.max(seconds, 30) end
      if seconds > AHEAD_SECONDS then
        redis.call('ZADD', P .. ':governor:due', NOW + seconds - AHEAD_SECONDS / 2, a.class)
        break
      end
      leave_line(id, job, reservation)
      take(a, id, need, NOW + seconds)
      local next = charge(a, job, need, tonumber(turn))
      redis.call('ZADD', turns, 'XX', next, job)
      redis.call('HSET', agent_key(id), 'activity', 'asking the model')
      agents.wake(id, 'slot')
    end
  end
  governor.save(a)
end

-- Return the slot of an agent that has used {requests, input, output}; nothing, if it did not use the slot.
local function give_back_slot(id, slot, used)
  local a = governor.account(slot.class)
  if redis.call('ZREM', governor.class_key(slot.class, 'slots'), id) == 1 then
    local held, rates = { 1, slot.input, slot.output }, governor.rates_of(a)
    for n = 1, 3 do a.level[n] = math.min(rates[n], a.level[n] + held[n] - (used and used[n] or 0)) end
  end
  redis.call('HDEL', agent_key(id), 'slot')
  return a
end

-- An agent without a process makes no call, and warms no cache for others.
function governor.leave(id, job)
  -- An agent that parks to wait for its slot stays in line.
  if once.keeps == id then return end
  local slot, asks, opens, state = fields(id, 'slot', 'asks', 'opens', 'state')
  if asks then leave_line(id, job, cjson.decode(asks)) end
  if opens then sharing.forsake(id, opens) end
  if not slot then return end
  slot = cjson.decode(slot)
  -- An agent that parks has not asked; from any other the server may have the request already.
  governor.serve(give_back_slot(id, slot, state ~= 'parked' and { 1, slot.input, 0 } or nil))
end

local function granted_slot(id, a, at) return { 'go', string.format('%.4f', at), a.mode, field(id, 'opens') or '' } end

-- Ask for a slot. A slot that the agent already holds is kept.
--   wish  {class, input, cold, prefix}: tokens that are not read from the cache; tokens of the shared beginning, which the first request
--         with it writes (`prefix` names it, '' if the beginning is not new)
-- Returns {'go', start time, known limits: the account's mode, the prefix that its reply opens for others or ''}
--   | {'wait'}: it is in line, or waits for another's first reply
function governor.ask_for_slot(id, job, reservation)
  local held, asks = fields(id, 'slot', 'asks')
  held = held and cjson.decode(held)
  if held and held.class == reservation.class then return granted_slot(id, governor.account(reservation.class), held.at) end
  if held then governor.serve(give_back_slot(id, held)) end
  if asks then leave_line(id, job, cjson.decode(asks)) end
  redis.call('ZADD', P .. ':governor', NOW, reservation.class)
  local a = governor.account(reservation.class)
  if reservation.prefix ~= '' then
    local may = sharing.may_begin(id, reservation.prefix)
    if may == 'wait' then
      redis.call('HSET', agent_key(id), 'asks', cjson.encode(reservation))
      return { 'wait' }
    end
    reservation.opens = may == 'open' or nil
  end
  local need = need_of(a, reservation)
  local seconds = governor.seconds_until(a, need)
  if seconds <= PATIENCE_SECONDS and has_width(a) and redis.call('EXISTS', governor.class_key(a.class, 'turns')) == 0 then
    take(a, id, need, NOW + seconds)
    charge(a, job, need, turn_of(a, job))
    governor.save(a)
    return granted_slot(id, a, NOW + seconds)
  end
  governor.enter_line(a, id, job, reservation)
  governor.serve(a)
  local now_held = field(id, 'slot')
  if now_held then return granted_slot(id, a, cjson.decode(now_held).at) end
  return { 'wait' }
end

-- Learn stated limits: {requests, input, output, left of each}, 0 or -1 for unstated ones; as of so many seconds ago.
function governor.learn(a, told, age)
  if a.mode ~= 'told' and told[1] + told[2] + told[3] > 0 then
    a.mode, a.window = 'told', math.max(a.window, WIDEST)
  elseif a.mode == 'new' then
    -- Allow all requests, doubled with each round of replies, until one is refused: the refusal shows the limit.
    a.mode, a.window = 'blind', 4 * FIRST_WINDOW
  end
  if a.mode ~= 'told' then return end
  for n = 1, 3 do a.limit[n] = told[n] end
  local rates = governor.rates_of(a)
  for n = 1, 3 do
    a.level[n] = math.min(rates[n], a.level[n])
    -- Only lower the level: the server has not deducted running requests yet, and the bucket has filled since.
    if told[n + 3] >= 0 and told[n] > 0 then a.level[n] = math.min(a.level[n], told[n + 3] + age * told[n] / 60) end
  end
end

local function fade(a)
  local quick, slow = math.exp(-(NOW - a.seen) / 3), math.exp(-(NOW - a.seen) / 30)
  a.seen, a.good, a.bad = NOW, a.good * quick, a.bad * quick
  a.asked, a.refused = a.asked * slow + 1, a.refused * slow
  -- Old use says little about the limits: after more than a minute the older half is forgotten.
  if NOW - a.since > 60 then
    a.since = (NOW + a.since) / 2
    for n = 1, 3 do a.used[n] = a.used[n] / 2 end
    -- With no agent in line, less was used than the limit, and the rest stayed in the bucket.
    if redis.call('EXISTS', governor.class_key(a.class, 'turns')) == 0 then a.slack = 1 end
  end
end

-- Estimate the server's limit per minute after a refusal: use equals the buckets' contents plus their refill since.
local function reckon(a)
  local minutes = (NOW - a.since) / 60
  for n = 1, 3 do
    local granted = a.used[n] / (minutes + a.slack)
    -- A single moment shows only that it was too much.
    if minutes < 1 / 6 and a.slack == 0 then granted = a.cap[n] * 0.93 end
    local least = a.cap[n] < UNBOUND and a.cap[n] * 0.2 or 0
    a.cap[n] = math.max(least, LEAST[n], math.min(a.cap[n], TARGET * granted))
    a.used[n] = 0
  end
  a.since, a.slack, a.window = NOW, 0, math.max(a.window, WIDEST)
end

-- Empty the buckets, also at the end of the hold: their refill during it is not released at once.
local function empty(a)
  local rates = governor.rates_of(a)
  for n = 1, 3 do
    if rates[n] < UNBOUND then a.level[n] = math.min(a.level[n], -(a.hold - NOW) * rates[n] / 60) end
  end
end

local function is_storm(a) return a.bad > 2 and a.bad > 0.2 * (a.good + a.bad) end

local function note_reply(a, used)
  a.good, a.rounds, a.turns = a.good + 1, 0, a.turns + 1
  if a.mode == 'blind' and a.limited == 0 and a.overloaded == 0 then a.window = math.min(WIDEST, a.window + 1) end
  for n = 1, 3 do a.used[n] = a.used[n] + used[n] end
  a.output = a.output + 0.05 * (used[3] - a.output)
  local passed = math.min(5, NOW - a.grown)
  if passed < 1 then return end
  a.grown = NOW
  -- Random overloads are not a storm: if each cut the window, it would stay at a few requests for ever.
  if not is_storm(a) and a.window < WIDEST then
    a.window = math.min(WIDEST, a.window * (a.window < a.half and 1.5 or 1.1) ^ passed + 0.5)
  end
  if a.mode == 'blind' and redis.call('EXISTS', governor.class_key(a.class, 'turns')) == 1 then
    -- The longer there is no refusal, the higher the estimate.
    local growth = 1 + math.min(0.03, 0.001 + 0.0001 * (NOW - a.refused_at))
    for n = 1, 3 do a.cap[n] = math.min(UNBOUND, a.cap[n] * growth ^ passed) end
  end
  a.share = math.min(1, a.share * 1.005 ^ passed)
end

local function note_overload(a)
  a.bad, a.overloaded = a.bad + 1, a.overloaded + 1
  if not is_storm(a) then return end
  a.hold = math.max(a.hold, NOW + 1)
  if NOW - a.cut < 2 then return end
  local flying = governor.in_flight(a)
  a.cut, a.half = NOW, math.max(a.half * 0.9, flying * 0.5)
  a.window = math.max(NARROWEST, math.min(a.window, flying + 1) * 0.7)
end

local function note_refusal(a, after)
  a.refused, a.limited = a.refused + 1, a.limited + 1
  if after <= 0 then after = math.min(60, 2 ^ a.rounds) end
  -- Without a known remainder, running replies may exceed the limit: do not retry at once.
  a.hold = math.max(a.hold, NOW + (a.mode == 'blind' and math.max(1, after) or after))
  a.used[1] = a.used[1] + 1
  if a.mode == 'blind' then empty(a) end
  if NOW - a.refused_at < 2 then return end
  a.refused_at, a.rounds = NOW, a.rounds + 1
  if a.mode == 'blind' then
    reckon(a)
    empty(a)
  elseif a.refused > 3 and a.refused > 0.05 * a.asked then
    -- Others use the same credential.
    a.share = math.max(0.05, a.share * 0.9)
  end
end

-- Settle a call that has ended: return its slot and learn from it.
--   call  {class, as: 'ok' | 'limited' | 'overloaded' | 'lost', input, output, after, told, age}: tokens not read from the cache; the
--         server's requested wait in seconds, or 0; input of `learn`
function governor.settle_call(id, call)
  local slot = field(id, 'slot')
  slot = slot and cjson.decode(slot)
  -- A refused request used nothing; the use of a lost one is unknown.
  local used = { 1, call.input, call.output }
  local a
  if slot and slot.class == call.class then
    local taken = (call.as == 'ok' or call.as == 'lost') and used or nil
    a = give_back_slot(id, slot, taken)
  else
    a = governor.account(call.class)
  end
  fade(a)
  -- A failure that does not mention limits may come from any hop.
  if call.as == 'ok' or call.as == 'limited' or call.told[1] > 0 then governor.learn(a, call.told, call.age) end
  if call.as == 'ok' then note_reply(a, used)
  elseif call.as == 'overloaded' then note_overload(a)
  elseif call.as == 'limited' then note_refusal(a, call.after) end
  governor.serve(a)
end
