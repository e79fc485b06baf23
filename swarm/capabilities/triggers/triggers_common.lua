-- Triggers: events that start jobs. A firing is one event that a trigger has taken in, with what came of it.
--
-- P:triggers                  zset    names of triggers by when they were first applied
-- P:triggers:next             zset    names of schedules by when they are due
-- P:triggers:due:HOST         zset    NAME/ID of firings to be started, by when; HOST is '' for triggers that any host can start
-- P:triggers:jobs             hash    open job that a firing has started -> NAME/ID
-- P:trigger:NAME              hash    document, by, at, paused; rule, host, budget, purse, period, next: what steps need of the document
-- P:trigger:NAME:firings      zset    ids of its firings by when they came, for KEPT_SECONDS
-- P:trigger:NAME:firing:ID    hash    at, event (JSON), key, job, state, why, tries, named: the job whose branch is its key; reserved and before: nano-dollars; released: its job has ended
-- P:trigger:NAME:last:KEY     string  id of the firing that was started last for a key
-- P:trigger:NAME:line:KEY     list    ids of firings that wait for the end of that one's job
-- P:trigger:NAME:spent:PERIOD string  nano-dollars that its jobs have spent or reserved in a period
-- P:trigger:NAME:hour:HOUR    string  number of events taken in
--
-- Of a job: `trigger_of`, the owner of the trigger that started it.
--
-- States of a firing: waiting -> starting -> started | skipped | refused | failed

triggers.KEPT_SECONDS = 8 * 86400
triggers.EVENTS_KEPT = 1000

function triggers.all_key(part) return P .. ':triggers' .. (part and ':' .. part or '') end
function triggers.key(name, ...) return table.concat({ P .. ':trigger:' .. name, ... }, ':') end

function triggers.due_key(name)
  return triggers.all_key('due:' .. (redis.call('HGET', triggers.key(name), 'host') or ''))
end

-- Spend or give back money of a purse.
function triggers.spend(name, id, amount)
  local period = redis.call('HGET', triggers.key(name, 'firing', id), 'period')
  if not period or amount == 0 then return end
  redis.call('INCRBY', triggers.key(name, 'spent', period), string.format('%.0f', amount))
  redis.call('EXPIRE', triggers.key(name, 'spent', period), 63 * 86400)
end

-- The job of a firing has ended: its money is known, and the next event of its key has its turn.
function triggers.release(name, id, spent)
  local reserved, key = read(triggers.key(name, 'firing', id), 'reserved', 'key')
  triggers.spend(name, id, spent - count(reserved))
  redis.call('HSET', triggers.key(name, 'firing', id), 'released', 1)
  local next_id = key and redis.call('LPOP', triggers.key(name, 'line', key))
  if next_id then redis.call('ZADD', triggers.due_key(name), NOW, name .. '/' .. next_id) end
end

at_event(function(job, kind)
  if kind ~= 'job_ended' then return end
  local started = redis.call('HGET', triggers.all_key('jobs'), job)
  if not started then return end
  redis.call('HDEL', triggers.all_key('jobs'), job)
  local name, id = string.match(started, '^([^/]+)/(.*)$')
  triggers.release(name, id, count(job_field(job, 'cost')) - count(redis.call('HGET', triggers.key(name, 'firing', id), 'before')))
end)
