-- The room in Redis' memory. Near its limit no job or child starts, so that what runs can end; and kept outputs of ended agents are freed.
--
-- P:full  string  'SHARE', of the limit: each sweep writes it while Redis is near its limit, and removes it after that; without sweeps it
--                 expires. Only while it is there do other steps measure, so that room counts at once

local TOLD_SECONDS = 60
-- Number of agents whose outputs one sweep frees.
local FREED_AT_ONCE = 50
local LOOKED_AT_ONCE = 20

-- The used and the available memory, in bytes. Without `maxmemory` the host's memory is the limit.
local function measure()
  local told = redis.pcall('INFO', 'memory')
  if type(told) == 'table' then return 0, 0 end -- the user lacks the right
  local function bytes(name) return tonumber(told:match('\n' .. name .. ':(%d+)') or '0') end
  local most = bytes('maxmemory')
  return bytes('used_memory') - bytes('mem_not_counted_for_evict'), most > 0 and most or bytes('total_system_memory')
end

-- {used, most} in bytes while Redis is near its limit, else nil.
function room.lack()
  local share = tonumber(redis.call('GET', P .. ':full') or '')
  if not share then return nil end
  local used, most = measure()
  return most > 0 and used >= most * share and { used, most } or nil
end

-- Measure the memory. Frees outputs above `share` of the limit; below it, what waited for room goes on.
function room.sweep(share)
  local used, most = measure()
  if most > 0 and used >= most * share then
    redis.call('SET', P .. ':full', tostring(share), 'EX', TOLD_SECONDS)
    outputs.free(FREED_AT_ONCE)
  else
    redis.call('DEL', P .. ':full')
    outputs.forget(LOOKED_AT_ONCE)
    for _, act in ipairs(sweepers) do act() end
  end
end
