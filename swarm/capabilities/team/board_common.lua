-- The part of a job's board that other steps use: tasks come back when their owner ends, and are offered to idle teammates.
--
-- P:job:ID:board          hash  task number -> JSON {subject, state, role?, blocked_by?, owner?, owner_name?, by, by_name, created,
--                               changed}; numbers count from 1 and are never reused
-- P:job:ID:board:text     hash  'NUMBER description' | 'NUMBER result' | 'NUMBER notes' -> text
-- P:job:ID:board:open     zset  the tasks that can be claimed: pending and not blocked
-- P:job:ID:board:owners   hash  task in progress -> its owner
-- P:job:ID:board:offers   hash  open task -> ' ID ID ': the teammates that it was offered to, the latest last
-- P:job:ID:board:done     set   the completed tasks
-- P:job:ID:board:left     hash  pending task -> number of its blocking tasks that are not completed
-- P:job:ID:board:edges    zset  'BLOCKER BLOCKED', in eight digits each, so that those of one blocker are a range
-- P:job:ID:board:waiting  set   agents that parked until tasks are completed: their field `wait_tasks` is a JSON list of numbers
-- P:job:ID:team           hash  the job's team, if it has one: name, description, lead, created; while it is dissolved, `leaving`: the
--                               names of its former members
-- P:job:ID:team:leaving   set   the members that have not ended yet
-- P:job:ID:team:idle      zset  its idle teammates by the time they went idle
-- Of the job's record: `board_ways` counts the changes of the blocking tasks of an existing task; `board_bytes`, the size of tasks, texts
-- and edges.
--
-- States of a task: pending -> in_progress -> completed; back to pending when its owner gives it back or ends.

function board.key(job, part) return job_key(job, part and 'board:' .. part or 'board') end

function board.load_task(job, n)
  local found = redis.call('HGET', board.key(job), n)
  return found and cjson.decode(found)
end

-- Set a field of the board or of a part of it, counted; '' removes it.
function board.write(job, part, name, text)
  local key = board.key(job, part)
  add(job_key(job), 'board_bytes', #text - redis.call('HSTRLEN', key, name))
  if text == '' then redis.call('HDEL', key, name) else redis.call('HSET', key, name, text) end
end

-- The bytes of so many edges.
function board.size_of_edges(number) return number * 100 end

-- An empty list would come back as an empty object.
function board.save_task(job, n, task)
  if task.blocked_by and #task.blocked_by == 0 then task.blocked_by = nil end
  task.changed = NOW
  board.write(job, nil, n, cjson.encode(task))
end

-- The blocking tasks of this one that are not completed.
function board.blockers(job, task)
  local left, wanted = {}, task.blocked_by or {}
  if #wanted == 0 then return left end
  for i, done in ipairs(redis.call('SMISMEMBER', board.key(job, 'done'), unpack(wanted))) do
    if done == 0 then left[#left + 1] = wanted[i] end
  end
  return left
end

local function edge(first, n) return string.format('%08d %08d', first, n) end

-- The tasks that this one blocks.
function board.blocked_by(job, n)
  local found = redis.call('ZRANGE', board.key(job, 'edges'), '[' .. edge(n, 0), '(' .. edge(n + 1, 0), 'BYLEX')
  for i, pair in ipairs(found) do found[i] = tonumber(pair:sub(10)) end
  return found
end

function board.blocks_any(job, n)
  return #redis.call('ZRANGE', board.key(job, 'edges'), '[' .. edge(n, 0), '(' .. edge(n + 1, 0), 'BYLEX', 'LIMIT', 0, 1) > 0
end

-- Let a task wait for these.
function board.block(job, n, task, wanted)
  local key, had, gone, new = board.key(job, 'edges'), {}, {}, {}
  for _, first in ipairs(task.blocked_by or {}) do had[first] = true end
  for _, first in ipairs(wanted) do
    if not had[first] then new[#new + 1], new[#new + 2] = 0, edge(first, n) end
    had[first] = nil
  end
  for first in pairs(had) do gone[#gone + 1] = edge(first, n) end
  -- All in one call: a call costs more than its work. A board has fewer tasks than fit on Lua's stack.
  if #gone > 0 then redis.call('ZREM', key, unpack(gone)) end
  if #new > 0 then redis.call('ZADD', key, unpack(new)) end
  add(job_key(job), 'board_bytes', board.size_of_edges(#new / 2 - #gone))
  task.blocked_by = wanted
  redis.call('HSET', board.key(job, 'left'), n, #board.blockers(job, task))
end

function board.tell(job, agent, n, task, change, ...)
  emit(job, 'board', agent, 'task', n, 'change', change, 'subject', task.subject, ...)
end

function board.role_fits(task, role) return not task.role or task.role == role end

-- Offer an open task to one teammate by a notice of the runtime, which wakes an idle one.
function board.offer_to(job, n, task, id)
  local offered = redis.call('HGET', board.key(job, 'offers'), n) or ' '
  redis.call('HSET', board.key(job, 'offers'), n, offered .. id .. ' ')
  agents.notify(id, { what = 'offer', task = tonumber(n), subject = task.subject })
end

local function was_offered(job, n, id)
  local offered = redis.call('HGET', board.key(job, 'offers'), n)
  return offered and offered:find(' ' .. id .. ' ', 1, true) ~= nil
end

-- Teammates that were idle at the call's first request, of one role or all, longest first. One step may open a thousand tasks.
local function idle_teammates(job, role)
  local found = once['idle ' .. job]
  if not found then
    found = { all = { first = 1 }, by_role = {} }
    once['idle ' .. job] = found
    for _, id in ipairs(redis.call('ZRANGE', job_key(job, 'team:idle'), 0, -1)) do
      local one = { id = id }
      one.role, one.parent = fields(id, 'role', 'parent')
      found.all[#found.all + 1] = one
      if one.role then
        found.by_role[one.role] = found.by_role[one.role] or { first = 1 }
        table.insert(found.by_role[one.role], one)
      end
    end
  end
  local meant = role and (found.by_role[role] or { first = 1 }) or found.all
  while meant[meant.first] and meant[meant.first].busy do meant.first = meant.first + 1 end
  return meant
end

-- Offer an open task to the longest idle teammate that fits and has not been offered it.
local function offer(job, n, task)
  local idle, offered = idle_teammates(job, task.role), nil
  for i = idle.first, #idle do
    local one = idle[i]
    offered = offered or redis.call('HGET', board.key(job, 'offers'), n) or ''
    if not one.busy and not offered:find(' ' .. one.id .. ' ', 1, true) then
      one.busy = not redis.call('ZSCORE', job_key(job, 'team:idle'), one.id) or has_ended(one.parent)
      if not one.busy then
        one.busy = true
        return board.offer_to(job, n, task, one.id)
      end
    end
  end
end

-- An open task that fits a teammate and has not been offered to it, or nil.
function board.open_task_for(job, id)
  local role = field(id, 'role')
  for _, n in ipairs(redis.call('ZRANGE', board.key(job, 'open'), 0, -1)) do
    local task = board.load_task(job, n)
    if board.role_fits(task, role) and not was_offered(job, n, id) then return n, task end
  end
end

-- Pass on the task that was offered to `id` last and not taken.
function board.pass_on(job, id)
  local offers = redis.call('HGETALL', board.key(job, 'offers'))
  for i = 1, #offers, 2 do
    if offers[i + 1]:sub(-#id - 2) == ' ' .. id .. ' ' then offer(job, offers[i], board.load_task(job, offers[i])) end
  end
end

-- Make a pending task claimable if nothing blocks it any more.
function board.open_task(job, n, task)
  if task.state ~= 'pending' or redis.call('HGET', board.key(job, 'left'), n) ~= '0' then
    redis.call('ZREM', board.key(job, 'open'), n)
    redis.call('HDEL', board.key(job, 'offers'), n)
    return false
  end
  redis.call('ZADD', board.key(job, 'open'), n, n)
  offer(job, n, task)
  return true
end

function board.give_task_back(job, n, task, agent)
  redis.call('HDEL', board.key(job, 'owners'), n)
  task.state, task.owner, task.owner_name = 'pending', nil, nil
  board.save_task(job, n, task)
  board.tell(job, agent, n, task, 'released')
end

-- The numbers of the tasks that an agent has in progress, in order.
function board.tasks_of(job, id)
  local found, owners = {}, redis.call('HGETALL', board.key(job, 'owners'))
  for i = 1, #owners, 2 do
    if owners[i + 1] == id then found[#found + 1] = tonumber(owners[i]) end
  end
  table.sort(found)
  return found
end

-- When an agent ends, put back its tasks in progress and pass on its offer.
at_end(function(job, id)
  if redis.call('EXISTS', board.key(job)) == 0 then return end
  for _, n in ipairs(board.tasks_of(job, id)) do
    local task = board.load_task(job, n)
    board.give_task_back(job, n, task, id)
    board.open_task(job, n, task)
  end
  board.pass_on(job, id)
end)

function idling.find_work(job, id)
  local n, task = board.open_task_for(job, id)
  if n then board.offer_to(job, n, task, id) end
  return n ~= nil
end

function idling.leave(job, id)
  board.pass_on(job, id)
  return board.tasks_of(job, id)
end

-- The tasks of these that are not completed.
function board.open_of(job, numbers)
  local left = {}
  for _, n in ipairs(numbers) do
    local task = board.load_task(job, n)
    if task and task.state ~= 'completed' then left[#left + 1] = n end
  end
  return left
end

keep_parts('board', 'board:text', 'board:open', 'board:owners', 'board:offers', 'board:done', 'board:left', 'board:edges',
  'board:waiting', 'team', 'team:idle', 'team:leaving')
