-- The governor: a rate limiter that decides which agent of the fleet may ask the model next. Limits apply to a class: a credential and a
-- kind of model. The fleet keeps an account per class: buckets of requests, input and output tokens that fill continuously, a time before
-- which no agent may ask (after a 429), and a window of concurrent requests (after refusals). An agent that may ask holds a slot. Its
-- lessons from the ends of calls: learning_common.lua
--
-- P:governor           zset    classes by the time of their last request
-- P:governor:due       zset    classes with agents in line, by when there may be room for the first
-- P:class:C            string  a class's account, JSON: see `account`
-- P:class:C:slots      zset    agents that hold a slot, by its start: each runs, or was woken for it and is queued
-- P:class:C:turns      zset    jobs with agents in line, by their turn: their use divided by their weight (start-time fair queueing)
-- P:class:C:line:JOB   zset    a job's agents in line, the next one first: `admission.place`
-- Of an agent: `slot`, JSON {class, input, output, at, tries}, the slot it holds, and from when on it may ask; `asks`, JSON, the wish it is in
-- line with: {class, input, cold, prefix}; `opens`, the prefix that its next reply writes: sharing_common.lua
-- Of a job: `turn:C`.
--
-- A slot lasts as long as the agent's process, or the way to one: an agent that parks, ends or dies returns its slot.

governor.TARGET = 0.97        -- of a limit: clocks and estimates differ
local PATIENCE_SECONDS = 1    -- an agent sleeps through a shorter wait: it takes a slot now that begins then
local AHEAD_SECONDS = 0.25    -- a woken agent needs a moment to get a process
local LONG_HOLD_SECONDS = 30  -- a longer hold is tried by one request now and then: the time that the server named may be too long
local LONGEST_TRY_SECONDS = 600
governor.WINDOWS = { new = 4, blind = 16, told = 1000 }  -- concurrent requests before any refusal
local CLASS_SECONDS = 7 * 86400
local TIMES = { 't', 'hold', 'try', 'cut', 'grown', 'seen', 'since', 'refused_at' }
governor.UNBOUND = 1e15

function governor.class_key(c, part) return P .. ':class:' .. c .. (part and ':' .. part or '') end

-- A class's current limits per minute: requests, input, output.
function governor.rates_of(a)
  local rates = {}
  for n = 1, 3 do
    local ceiling = a.ceiling[n] or governor.UNBOUND
    if a.mode == 'told' and a.limit[n] > 0 then rates[n] = math.min(ceiling, a.limit[n] * governor.TARGET * a.share)
    elseif a.mode == 'blind' and not a.ceiling[n] then rates[n] = a.cap[n]
    else rates[n] = ceiling end
  end
  return rates
end

-- The account of a class at the current time; the same table during one call.
--   mode        'new': unknown; 'told': the server states limits; 'blind': it does not
--   limit, cap  per minute: stated limits (0: not stated), and limits learned from refusals; share: the part that other users leave us
--   ceiling     per minute, by an operator, instead of the learned limits; false: none
--   level, t    the buckets' levels at time t; may be below zero
--   hold, by    no requests before this time, and why: 'server', 'refusal', 'storm', 'operator'; rounds: consecutive refusals without a
--               stated time; try: when one request may find out whether a long hold is over; pause: seconds from the last try to the next
--   window      most concurrent requests; narrow: why it has a bound: 'start', 'refusal', 'storm'; half: below it the window grows
--               quickly; cut, grown: times of the last change
--   good, bad   recent answers and overloads, fading within seconds; seen: their time
--   used, since use since then; slack: 1 if the server's buckets may have been full then, 0 if a refusal showed that one was empty
--   granted     per minute, at least, up to the refusal at `since`
--   asked, refused  requests and 429s, fading within half a minute
--   output      tokens that a reply has, on average
--   sent, turns, limited, overloaded   total counts
function governor.account(c)
  local a = once['class:' .. c]
  if a then return a end
  local unbound = governor.UNBOUND
  a = {
    mode = 'new', limit = { 0, 0, 0 }, cap = { unbound, unbound, unbound }, ceiling = { false, false, false }, share = 1,
    level = { unbound, unbound, unbound }, t = NOW, hold = 0, by = '', rounds = 0, try = 0, pause = LONG_HOLD_SECONDS,
    window = governor.WINDOWS.new, narrow = 'start', half = 0, cut = 0, grown = 0, good = 0, bad = 0, seen = NOW, used = { 0, 0, 0 }, granted = { 0, 0, 0 },
    since = NOW, slack = 1, asked = 0, refused = 0, refused_at = 0, output = 800, sent = 0, turns = 0, limited = 0, overloaded = 0 }
  local known = redis.call('GET', governor.class_key(c))
  for name, value in pairs(known and cjson.decode(known) or {}) do a[name] = value end
  a.class = c
  -- The server's clock was set back: all times keep their distance from now.
  local back = a.t - NOW
  if back > 0 then
    for _, name in ipairs(TIMES) do a[name] = a[name] - back end
  end
  local rates = governor.rates_of(a)
  for n = 1, 3 do a.level[n] = math.min(rates[n], a.level[n] + math.max(0, NOW - a.t) * rates[n] / 60) end
  a.t = NOW
  once['class:' .. c] = a
  return a
end

function governor.save(a)
  local key = governor.class_key(a.class)
  redis.call('SET', key, cjson.encode(a), 'EX', CLASS_SECONDS)
  -- What an operator has set is not forgotten.
  if a.ceiling[1] or a.ceiling[2] or a.ceiling[3] then redis.call('PERSIST', key) end
end

-- Forbid requests until a time. No request tries it during an operator's hold.
function governor.hold(a, time, by)
  if by == 'operator' then
    a.hold, a.by = math.max(a.hold, time), by
    a.try = a.hold
  elseif time > a.hold then
    if a.hold < NOW then a.pause = LONG_HOLD_SECONDS end
    local from = a.by == 'operator' and math.max(a.hold, NOW) or NOW
    a.hold, a.by, a.try = time, by, math.min(time, from + a.pause)
  end
end

-- Fit the buckets to changed limits: without a limit they are full.
function governor.fit_levels(a)
  local rates = governor.rates_of(a)
  for n = 1, 3 do a.level[n] = rates[n] < governor.UNBOUND and math.min(a.level[n], rates[n]) or governor.UNBOUND end
end

-- End a hold. Buckets that were emptied until its end are empty now.
function governor.release(a)
  a.hold, a.by = NOW, ''
  if a.mode == 'blind' then
    for n = 1, 3 do a.level[n] = math.max(0, a.level[n]) end
  end
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

-- Seconds until the next agent may have a slot.
local function seconds_until_slot(a, need)
  if NOW < a.hold and a.try < a.hold then return math.max(0, a.try - NOW) end
  return governor.seconds_until(a, need)
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
  local tries = at < a.hold - 0.01
  -- One at a time.
  if tries then a.try = a.hold end
  redis.call('ZADD', governor.class_key(a.class, 'slots'), NOW, id)
  redis.call('HSET', agent_key(id), 'slot', cjson.encode({ class = a.class, input = need[2], output = need[3], at = at, tries = tries }))
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
  redis.call('ZADD', governor.class_key(a.class, 'line:' .. job), 'NX', admission.place(id), id)
  redis.call('ZADD', governor.class_key(a.class, 'turns'), 'NX', turn_of(a, job), job)
  redis.call('HSET', agent_key(id), 'asks', cjson.encode(reservation))
end

-- Give slots to agents in line while there is room, and wake the parked ones.
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
      local seconds = seconds_until_slot(a, need)
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
  if slot.tries and a.by ~= 'operator' then
    a.pause = math.min(LONGEST_TRY_SECONDS, 2 * a.pause)
    a.try = math.min(a.hold, NOW + a.pause)
  end
  return a
end

-- The slot that an agent was woken with, JSON or ''. It is returned if requests have been forbidden since: the agent asks again.
function governor.slot_of(id)
  local document = field(id, 'slot')
  if not document then return '' end
  local slot = cjson.decode(document)
  if slot.tries or governor.account(slot.class).hold <= NOW + PATIENCE_SECONDS then return document end
  governor.save(give_back_slot(id, slot))
  return ''
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
  local seconds = seconds_until_slot(a, need)
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

-- Settle a call that has ended: return its slot and learn from it.
--   call  {class, as: 'ok' | 'limited' | 'overloaded' | 'lost', input, output, after, told, age}: tokens not read from the cache; the
--         server's requested wait in seconds, or 0; input of `learning.note_limits`
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
  learning.note_end(a, call, used, slot and slot.tries)
  governor.serve(a)
end
