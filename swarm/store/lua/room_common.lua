-- The room in Redis' memory. Near its limit no job or child starts, so that what runs can end; and kept outputs of ended agents are freed.
--
-- P:full  string  'USED MOST', bytes: each sweep writes it while Redis is near its limit, and removes it after that; without sweeps it expires

local TOLD_SECONDS = 60
-- Number of agents whose outputs one sweep frees.
local FREED_AT_ONCE = 50
local LOOKED_AT_ONCE = 20

-- The used and the available memory, in bytes. Without `maxmemory` the host's memory is the limit.
local function measure()
  local told = redis.call('INFO', 'memory')
  local function bytes(name) return tonumber(told:match('\n' .. name .. ':(%d+)') or '0') end
  local most = bytes('maxmemory')
  return bytes('used_memory') - bytes('mem_not_counted_for_evict'), most > 0 and most or bytes('total_system_memory')
end

-- {used, most} in bytes while Redis is near its limit, else nil.
function room.lack()
  local used, most = string.match(redis.call('GET', P .. ':full') or '', '(%d+) (%d+)')
  return used and { tonumber(used), tonumber(most) }
end

-- Measure the memory. Frees outputs above `share` of the limit; below it, what waited for room goes on.
function room.sweep(share)
  local used, most = measure()
  if most > 0 and used >= most * share then
    redis.call('SET', P .. ':full', string.format('%.0f %.0f', used, most), 'EX', TOLD_SECONDS)
    outputs.free(FREED_AT_ONCE)
  else
    redis.call('DEL', P .. ':full')
    outputs.forget(LOOKED_AT_ONCE)
    for _, act in ipairs(sweepers) do act() end
  end
end
