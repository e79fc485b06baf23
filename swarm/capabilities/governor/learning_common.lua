-- What a class learns from the ends of its calls: stated limits, the limits that refusals show, and how many requests may run at once.
-- Its account: governor_common.lua
--
-- A server that states no limits refuses for reasons of its own, too. So one refusal halves the window of concurrent requests, which grows
-- again with each reply. A limit per minute is believed only when refusals are repeated, and is then the grant between them. Without any
-- grant there is nothing to believe: the server then refuses all requests for a time, and holds alone answer that.

local WIDEST = 1000
local NARROWEST = 4
local LEAST = { 30, 20000, 5000 }  -- a minute, whatever was refused: few moments may teach wrong limits
local LEAST_MINUTES = 1 / 6        -- a shorter measurement shows no limit

-- Learn stated limits: {requests, input, output, left of each}, 0 or -1 for unstated ones; as of so many seconds ago.
function learning.note_limits(a, told, age)
  if a.mode ~= 'told' and told[1] + told[2] + told[3] > 0 then
    a.mode, a.window = 'told', math.max(a.window, governor.WINDOWS.told)
  elseif a.mode == 'new' then
    -- Allow all requests, doubled with each round of replies, until some are refused.
    a.mode, a.window = 'blind', governor.WINDOWS.blind
  end
  if a.mode ~= 'told' then return end
  -- A limit is valid until another is stated: not every reply has all headers.
  for n = 1, 3 do
    if told[n] > 0 then a.limit[n] = told[n] end
  end
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

-- Whether refusals are more than single ones.
local function are_refusals_repeated(a) return a.refused > 3 and a.refused > 0.05 * a.asked end

-- Estimate the server's limit per minute: its grants from one refusal to another. A refusal shows an empty bucket, so this is its
-- refill, or less, if many were refused. The grant before the first refusal is only the least that the limit can be: the jobs may
-- have just begun.
local function reckon(a)
  local minutes, is_known = (NOW - a.since) / 60, a.cap[1] < governor.UNBOUND
  local is_measured = minutes >= LEAST_MINUTES and a.used[2] + a.used[3] > 0
  if a.slack == 0 and are_refusals_repeated(a) and (is_known or is_measured) then
    for n = 1, 3 do
      -- A single moment shows only that it was too much.
      local granted = minutes < LEAST_MINUTES and a.cap[n] * 0.93 or a.used[n] / minutes
      if not is_known then granted = math.max(granted, a.granted[n]) end
      a.cap[n] = math.max(is_known and a.cap[n] * 0.5 or 0, LEAST[n], math.min(a.cap[n], governor.TARGET * granted))
    end
    a.window = math.max(a.window, WIDEST)
  elseif a.slack == 0 and minutes < LEAST_MINUTES then
    return
  end
  for n = 1, 3 do a.granted[n] = a.used[n] / (minutes + a.slack) end
  a.used, a.since, a.slack = { 0, 0, 0 }, NOW, 0
end

-- Empty the buckets, also at the end of the hold: their refill during it is not released at once.
local function empty(a)
  local rates = governor.rates_of(a)
  for n = 1, 3 do
    if rates[n] < governor.UNBOUND then a.level[n] = math.min(a.level[n], -(a.hold - NOW) * rates[n] / 60) end
  end
end

-- Let fewer agents ask at once: this part of the asking ones.
local function narrow(a, part, why)
  a.window, a.narrow, a.cut = math.max(NARROWEST, math.min(a.window, governor.in_flight(a) + 1) * part), why, NOW
end

local function is_storm(a) return a.bad > 2 and a.bad > 0.2 * (a.good + a.bad) end

local function note_reply(a, used)
  a.good, a.rounds, a.turns = a.good + 1, 0, a.turns + 1
  if a.mode == 'blind' and a.overloaded == 0 and not are_refusals_repeated(a) then a.window = math.min(WIDEST, a.window + 1) end
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
    for n = 1, 3 do a.cap[n] = math.min(governor.UNBOUND, a.cap[n] * growth ^ passed) end
  end
  a.share = math.min(1, a.share * 1.005 ^ passed)
end

local function note_overload(a)
  a.bad, a.overloaded = a.bad + 1, a.overloaded + 1
  if not is_storm(a) then return end
  governor.hold(a, NOW + 1, 'storm')
  if NOW - a.cut < 2 then return end
  a.half = math.max(a.half * 0.9, governor.in_flight(a) * 0.5)
  narrow(a, 0.7, 'storm')
end

local function note_refusal(a, after)
  a.refused, a.limited = a.refused + 1, a.limited + 1
  local by = after > 0 and 'server' or 'refusal'
  if after <= 0 then after = math.min(60, 2 ^ a.rounds) end
  -- Without a known remainder, running replies may exceed the limit: do not retry at once.
  governor.hold(a, NOW + (a.mode == 'blind' and math.max(1, after) or after), by)
  a.used[1] = a.used[1] + 1
  if a.mode == 'blind' then empty(a) end
  if NOW - a.refused_at < 2 then return end
  a.refused_at, a.rounds = NOW, a.rounds + 1
  if a.mode == 'blind' then
    if a.cap[1] == governor.UNBOUND then narrow(a, 0.5, 'refusal') end
    reckon(a)
    empty(a)
  elseif are_refusals_repeated(a) then
    -- Others use the same credential.
    a.share = math.max(0.05, a.share * 0.9)
  end
end

-- Learn from a call that has ended: `settle_call` has its input. `used`: {requests, input, output}; tried: it was made during a hold.
function learning.note_end(a, call, used, tried)
  fade(a)
  -- A failure that does not mention limits may come from any hop.
  if call.as == 'ok' or call.as == 'limited' or call.told[1] > 0 then learning.note_limits(a, call.told, call.age) end
  -- The server's last word counts.
  if tried and a.by ~= 'operator' and (call.as == 'ok' or call.as == 'limited') then governor.release(a) end
  if call.as == 'ok' then note_reply(a, used)
  elseif call.as == 'overloaded' then note_overload(a)
  elseif call.as == 'limited' then note_refusal(a, call.after) end
end

-- Forget what refusals have taught, for an operator who knows better.
function learning.forget(a)
  local unbound = governor.UNBOUND
  governor.release(a)
  a.rounds, a.cap, a.share, a.window, a.narrow = 0, { unbound, unbound, unbound }, 1, governor.WINDOWS[a.mode], 'start'
  a.used, a.since, a.slack, a.refused, a.bad = { 0, 0, 0 }, NOW, 1, 0, 0
  governor.fit_levels(a)
end
