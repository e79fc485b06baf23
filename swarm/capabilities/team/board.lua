-- One step on a job's task board, by one of its agents; repeating a cause returns the first answer and changes nothing.
--   request  JSON {agent, cause, ...}
--     add       subject, description, role?, blocked_by [numbers], max_tasks, most_mib
--     claim     task?, or the first that fits the agent's role
--     update    task, subject?, description?, role? ('' = for all), blocked_by? [numbers], seen?, note?, max_notes, most_mib
--                 most_mib  the most of the board
--                 seen  the count `board_ways` at which the caller found that `blocked_by` makes no circle
--     give      task, to: its new owner, or '' to put it back
--     complete  task, result
-- Returns {'ok', publish, JSON, kill}: add {task}, claim {task}, update {task}, give {task}, complete {unblocked: 'N, N'}
--   | {'none', JSON {open, in_progress, blocked, completed}}: nothing can be claimed
--   | {'refused', why, JSON}: the codes and their fields are in board.py

-- The named task, or the refusal.
local function find_task(job, n)
  local task = board.load_task(job, n)
  if task then return task end
  return nil, causes.refuse('unknown', { task = n, tasks = redis.call('HLEN', board.key(job)) })
end

-- Why `id` cannot have the task, or nil. `agent` makes the change.
local function obstacle(job, agent, id, n, task)
  if task.state == 'completed' then return causes.refuse('completed', { task = n }) end
  if task.state == 'in_progress' then return causes.refuse('in progress', { task = n, owner = task.owner_name }) end
  local left = board.blockers(job, task)
  if #left > 0 then return causes.refuse('blocked', { task = n, by = left }) end
  local role = field(id, 'role')
  if not board.role_fits(task, role) then
    return causes.refuse('role', { task = n, wanted = task.role, who = id ~= agent and agents.name_of(id) or nil, has = role or nil })
  end
  return nil
end

local function take_task(job, id, n, task)
  task.state, task.owner, task.owner_name = 'in_progress', id, agents.name_of(id)
  redis.call('HSET', board.key(job, 'owners'), n, id)
  redis.call('ZREM', board.key(job, 'open'), n)
  redis.call('HDEL', board.key(job, 'offers'), n)
  board.save_task(job, n, task)
  board.tell(job, id, n, task, 'claimed')
end

-- Why these tasks cannot come before task `n`, or nil. `n` may not exist yet.
local function check_blockers(job, n, wanted)
  -- Numbers are given in order, and no task is ever removed.
  local there = redis.call('HLEN', board.key(job))
  for _, first in ipairs(wanted) do
    if first == n then return causes.refuse('itself', { task = n }) end
    if first < 1 or first > there then return causes.refuse('unknown', { task = first, tasks = there }) end
  end
  return nil
end

-- Following every path would block the server for a second on a dense board. So the caller looks for circles before the change, in the
-- tasks that it has read; here only the count is compared.
local function check_seen(job, n, wanted, seen)
  if #wanted == 0 or not board.blocks_any(job, n) or seen == count(job_field(job, 'board_ways')) then return nil end
  return causes.refuse('unseen', { task = n })
end

-- Why the board cannot be longer by so many bytes, or nil.
local function check_room(job, given, bytes)
  if bytes <= 0 or count(job_field(job, 'board_bytes')) + bytes <= given.most_mib * 2^20 then return nil end
  return causes.refuse('no room', { most = given.most_mib })
end

local function set_text(job, n, what, text) board.write(job, 'text', n .. ' ' .. what, text) end

-- Wake the agents that waited for this task.
local function wake_waiting(job, n)
  for _, id in ipairs(redis.call('SMEMBERS', board.key(job, 'waiting'))) do
    local awaited, mode = fields(id, 'wait_tasks', 'wait_mode')
    local left, found = {}, false
    for _, other in ipairs(awaited and cjson.decode(awaited) or {}) do
      if tonumber(other) == n then found = true else left[#left + 1] = other end
    end
    if not awaited or (found and (#left == 0 or mode == 'any')) then
      redis.call('SREM', board.key(job, 'waiting'), id)
      if awaited then agents.wake(id, 'tasks') end
    elseif found then
      redis.call('HSET', agent_key(id), 'wait_tasks', cjson.encode(left))
    end
  end
end

-- Each gets the named task, if any, and returns its answer, or nil and the refusal.
local operations = {}

function operations.add(job, agent, given)
  local n = redis.call('HLEN', board.key(job)) + 1
  if n > given.max_tasks then return nil, causes.refuse('full', { most = given.max_tasks }) end
  local fault = check_blockers(job, n, given.blocked_by)
    or check_room(job, given, #given.subject + #given.description + board.size_of_edges(#given.blocked_by))
  if fault then return nil, fault end
  local task = { subject = given.subject, state = 'pending', role = given.role, by = agent, by_name = agents.name_of(agent),
    created = NOW }
  board.block(job, n, task, given.blocked_by)
  board.save_task(job, n, task)
  set_text(job, n, 'description', given.description)
  board.tell(job, agent, n, task, 'added')
  board.open_task(job, n, task)
  return { task = n }
end

function operations.claim(job, agent, given, task)
  if task then
    if task.owner ~= agent or task.state ~= 'in_progress' then
      local fault = obstacle(job, agent, agent, given.task, task)
      if fault then return nil, fault end
      take_task(job, agent, given.task, task)
    end
    return { task = given.task }
  end
  local role, open = field(agent, 'role'), redis.call('ZRANGE', board.key(job, 'open'), 0, -1)
  for _, n in ipairs(open) do
    task = board.load_task(job, n)
    if board.role_fits(task, role) then
      take_task(job, agent, n, task)
      return { task = tonumber(n) }
    end
  end
  local busy, all = redis.call('HLEN', board.key(job, 'owners')), redis.call('HLEN', board.key(job))
  local done = redis.call('SCARD', board.key(job, 'done'))
  return nil, { 'none', cjson.encode({ open = #open, in_progress = busy, blocked = all - #open - busy - done, completed = done }) }
end

function operations.update(job, agent, given, task)
  local n = given.task
  local changes = given.subject or given.description or given.role or given.blocked_by
  if changes then
    if task.state == 'completed' then return nil, causes.refuse('only notes', { task = n }) end
    if agent ~= task.owner and agent ~= task.by and not causes.is_lead(job, agent) then
      return nil, causes.refuse('not yours', { task = n, by = task.by_name })
    end
  end
  local before = given.description and redis.call('HSTRLEN', board.key(job, 'text'), n .. ' description') or 0
  local full = check_room(job, given, #(given.description or '') - before + #(given.note or '')
    + (given.blocked_by and board.size_of_edges(#given.blocked_by - #(task.blocked_by or {})) or 0))
  if full then return nil, full end
  if given.blocked_by then
    if task.state == 'in_progress' then return nil, causes.refuse('at work', { task = n }) end
    local fault = check_blockers(job, n, given.blocked_by) or check_seen(job, n, given.blocked_by, given.seen)
    if fault then return nil, fault end
    board.block(job, n, task, given.blocked_by)
    redis.call('HINCRBY', job_key(job), 'board_ways', 1)
  end
  if given.note then
    local notes = redis.call('HGET', board.key(job, 'text'), n .. ' notes')
    notes = (notes and notes .. '\n' or '') .. agents.name_of(agent) .. ': ' .. given.note
    if #notes > given.max_notes then return nil, causes.refuse('notes full', { task = n }) end
    set_text(job, n, 'notes', notes)
  end
  if given.subject then task.subject = given.subject end
  if given.description then set_text(job, n, 'description', given.description) end
  if given.role then
    task.role = given.role ~= '' and given.role or nil
    redis.call('HDEL', board.key(job, 'offers'), n)
  end
  board.save_task(job, n, task)
  board.tell(job, agent, n, task, given.note and not changes and 'noted' or 'updated')
  if given.role or given.blocked_by then board.open_task(job, n, task) end
  return { task = n }
end

function operations.give(job, agent, given, task)
  local n = given.task
  if task.state == 'completed' then return nil, causes.refuse('completed', { task = n }) end
  if agent ~= task.owner and not causes.is_lead(job, agent) then
    return nil, causes.refuse('not to give', { task = n, owner = task.owner_name })
  end
  if given.to == '' then
    if task.state == 'in_progress' then
      local before = task.owner
      board.give_task_back(job, n, task, agent)
      -- The agent that gives it back is not offered it again.
      if before == agent then redis.call('HSET', board.key(job, 'offers'), n, ' ' .. agent .. ' ') end
      board.open_task(job, n, task)
    end
    return { task = n }
  end
  local state, of = fields(given.to, 'state', 'job')
  if of ~= job or TERMINAL[state] then return nil, causes.refuse('ended', { who = agents.name_of(given.to) }) end
  if task.owner == given.to then return { task = n } end
  if task.state == 'in_progress' then task.state = 'pending' end
  local fault = obstacle(job, agent, given.to, n, task)
  if fault then return nil, fault end
  take_task(job, given.to, n, task)
  if given.to ~= agent then
    agents.notify(given.to, { what = 'given', task = n, subject = task.subject, by = agents.name_of(agent) })
  end
  return { task = n }
end

function operations.complete(job, agent, given, task)
  local n = given.task
  if task.state == 'completed' then return nil, causes.refuse('completed', { task = n, by = task.owner_name }) end
  if agent ~= task.owner and not causes.is_lead(job, agent) then return nil, causes.refuse('not owned', { task = n, owner = task.owner_name }) end
  if task.owner ~= agent then task.owner, task.owner_name = agent, agents.name_of(agent) end
  task.state = 'completed'
  redis.call('HDEL', board.key(job, 'owners'), n)
  board.save_task(job, n, task)
  board.open_task(job, n, task)
  set_text(job, n, 'result', given.result)
  board.tell(job, agent, n, task, 'completed')
  redis.call('SADD', board.key(job, 'done'), n)
  local unblocked = {}
  for _, other in ipairs(board.blocked_by(job, n)) do
    if redis.call('HINCRBY', board.key(job, 'left'), other, -1) == 0 and board.open_task(job, other, board.load_task(job, other)) then
      unblocked[#unblocked + 1] = other
    end
  end
  wake_waiting(job, n)
  return { unblocked = table.concat(unblocked, ', ') }
end

step('board', function(job, operation, request)
  local given = cjson.decode(request)
  local early = causes.answered(job, given.agent, given.cause)
  if early then return early end
  local task, done, refused
  if given.task then task, refused = find_task(job, given.task) end
  if not refused then done, refused = operations[operation](job, given.agent, given, task) end
  return refused or causes.answer(job, given.cause, done)
end)
