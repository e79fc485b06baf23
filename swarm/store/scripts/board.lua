-- One step on a job's task board, by one of its agents; the same cause again answers the same and does nothing.
-- ARGV: prefix, job, operation, JSON {agent, cause, ...}
--   add       subject, description, role?, blocked_by [numbers], max_tasks
--   claim     task?, or the first that fits the agent's role
--   update    task, subject?, description?, role? ('' = for all), blocked_by? [numbers], note?, max_notes
--   give      task, to: the agent that has it from now on, or '' to put it back
--   complete  task, result
-- Answers {'ok', publish, JSON, kill}: add {task}, claim {task}, update {}, give {}, complete {unblocked: 'N, N'}
--   | {'none', why}: nothing can be claimed | {'refused', why}
local job, operation, given = ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local agent, cause = given.agent, given.cause
local early = answered(job, agent, cause)
if early then return early end

local function refuse(...) return { 'refused', string.format(...) } end

-- The task that is meant, or the refusal.
local function find_task(n)
  local task = load_task(job, n)
  if task then return task end
  local count = redis.call('HLEN', board_key(job))
  if count == 0 then return nil, refuse('there is no task %d: the board is empty', n) end
  return nil, refuse('there is no task %d: the board has tasks 1 to %d', n, count)
end

-- Why `id` cannot have the task, or nil.
local function obstacle(id, n, task)
  if task.state == 'completed' then return refuse('task %d is completed already', n) end
  if task.state == 'in_progress' then return refuse('task %d belongs to %s, who works on it', n, task.owner_name) end
  local left = blockers(job, task)
  if #left > 0 then return refuse('task %d is blocked until task %s is completed', n, table.concat(left, ', ')) end
  local role = field(id, 'role')
  if not role_fits(task, role) then
    return refuse("task %d is for the role '%s'; %s has %s", n, task.role, id == agent and 'the caller' or name_of(id),
      role and "the role '" .. role .. "'" or 'no role')
  end
  return nil
end

local function take_task(id, n, task)
  task.state, task.owner, task.owner_name = 'in_progress', id, name_of(id)
  redis.call('HSET', board_key(job, 'owners'), n, id)
  redis.call('ZREM', board_key(job, 'open'), n)
  redis.call('HDEL', board_key(job, 'offers'), n)
  save_task(job, n, task)
  tell_board(job, id, n, task, 'claimed')
end

-- Why these tasks cannot come before task `n`, or nil. `n` may not exist yet.
local function check_blockers(n, wanted)
  for _, first in ipairs(wanted) do
    if first == n then return refuse('task %d cannot wait for itself', n) end
    local _, missing = find_task(first)
    if missing then return missing end
  end
  -- Does a way lead from one of them back to `n`?
  local seen, ways = {}, {}
  for _, first in ipairs(wanted) do ways[#ways + 1] = { first } end
  while #ways > 0 do
    local way = table.remove(ways)
    local last = way[#way]
    if last == n then
      return refuse('that would be a circle: task %d waits for %s', n, table.concat(way, ', which waits for '))
    end
    if not seen[last] then
      seen[last] = true
      for _, next in ipairs((load_task(job, last) or {}).blocked_by or {}) do
        local longer = { unpack(way) }
        longer[#longer + 1] = next
        ways[#ways + 1] = longer
      end
    end
  end
  return nil
end

local function set_text(n, what, text)
  if text == '' then
    redis.call('HDEL', board_key(job, 'text'), n .. ' ' .. what)
  else
    redis.call('HSET', board_key(job, 'text'), n .. ' ' .. what, text)
  end
end

local steps = {}

steps.add = function()
  local n = redis.call('HLEN', board_key(job)) + 1
  if n > given.max_tasks then return refuse('the board is full: a job has at most %d tasks', given.max_tasks) end
  local fault = check_blockers(n, given.blocked_by)
  if fault then return fault end
  local task = { subject = given.subject, state = 'pending', role = given.role, blocked_by = given.blocked_by, by = agent,
    by_name = name_of(agent), created = NOW }
  save_task(job, n, task)
  set_text(n, 'description', given.description)
  tell_board(job, agent, n, task, 'added')
  open_task(job, n, task)
  return answer(job, cause, { task = n })
end

steps.claim = function()
  if given.task then
    local task, missing = find_task(given.task)
    if missing then return missing end
    if task.owner ~= agent or task.state ~= 'in_progress' then
      local fault = obstacle(agent, given.task, task)
      if fault then return fault end
      take_task(agent, given.task, task)
    end
    return answer(job, cause, { task = given.task })
  end
  local role, open = field(agent, 'role'), redis.call('ZRANGE', board_key(job, 'open'), 0, -1)
  for _, n in ipairs(open) do
    local task = load_task(job, n)
    if role_fits(task, role) then
      take_task(agent, n, task)
      return answer(job, cause, { task = tonumber(n) })
    end
  end
  local busy = redis.call('HLEN', board_key(job, 'owners'))
  local done, count = 0, redis.call('HLEN', board_key(job))
  for n = 1, count do if load_task(job, n).state == 'completed' then done = done + 1 end end
  return { 'none', string.format('%d open for other roles, %d in progress, %d blocked, %d completed', #open, busy,
    count - #open - busy - done, done) }
end

steps.update = function()
  local n = given.task
  local task, missing = find_task(n)
  if missing then return missing end
  local changes = given.subject or given.description or given.role or given.blocked_by
  if changes then
    if task.state == 'completed' then return refuse('task %d is completed: only notes can be added', n) end
    if agent ~= task.owner and agent ~= task.by and not is_lead(job, agent) then
      return refuse('task %d can be changed by the lead, by %s who added it, and by its owner; add a note instead', n, task.by_name)
    end
  end
  if given.blocked_by then
    if task.state == 'in_progress' then
      return refuse('task %d is in progress: give it back before changing what blocks it', n)
    end
    local fault = check_blockers(n, given.blocked_by)
    if fault then return fault end
    task.blocked_by = given.blocked_by
  end
  if given.note then
    local notes = redis.call('HGET', board_key(job, 'text'), n .. ' notes')
    notes = (notes and notes .. '\n' or '') .. name_of(agent) .. ': ' .. given.note
    if #notes > given.max_notes then return refuse('the notes of task %d are full; write to a page of the scratchpad', n) end
    set_text(n, 'notes', notes)
  end
  if given.subject then task.subject = given.subject end
  if given.description then set_text(n, 'description', given.description) end
  if given.role then
    task.role = given.role ~= '' and given.role or nil
    redis.call('HDEL', board_key(job, 'offers'), n)
  end
  save_task(job, n, task)
  tell_board(job, agent, n, task, given.note and not changes and 'noted' or 'updated')
  if given.role or given.blocked_by then open_task(job, n, task) end
  return answer(job, cause, { task = n })
end

steps.give = function()
  local n = given.task
  local task, missing = find_task(n)
  if missing then return missing end
  if task.state == 'completed' then return refuse('task %d is completed already', n) end
  if agent ~= task.owner and not is_lead(job, agent) then
    return refuse('task %d can be given away by the lead and by its owner%s', n,
      task.owner_name and ', ' .. task.owner_name or '')
  end
  if given.to == '' then
    if task.state == 'in_progress' then
      local before = task.owner
      give_task_back(job, n, task, agent)
      -- Whoever gives it back is not asked to take it again.
      if before == agent then redis.call('HSET', board_key(job, 'offers'), n, ' ' .. agent .. ' ') end
      open_task(job, n, task)
    end
    return answer(job, cause, { task = n })
  end
  local record = redis.call('HMGET', agent_key(given.to), 'state', 'job')
  if record[2] ~= job or TERMINAL[record[1]] then return refuse('%s has ended: it cannot have a task', name_of(given.to)) end
  if task.owner == given.to then return answer(job, cause, { task = n }) end
  if task.state == 'in_progress' then task.state = 'pending' end
  local fault = obstacle(given.to, n, task)
  if fault then return fault end
  take_task(given.to, n, task)
  if given.to ~= agent then
    deliver(given.to, 'runtime', 'runtime', 'notification', cjson.encode({ what = 'note', text = string.format(
      '%s gave you task %d of the board: %s\nRead it with BoardList (task_id %d).', name_of(agent), n, task.subject, n) }))
  end
  return answer(job, cause, { task = n })
end

-- Wake whoever waited for this task.
local function wake_waiting(n)
  for _, id in ipairs(redis.call('SMEMBERS', board_key(job, 'waiting'))) do
    local record = redis.call('HMGET', agent_key(id), 'wait_tasks', 'wait_mode')
    local left, found = {}, false
    for _, other in ipairs(record[1] and cjson.decode(record[1]) or {}) do
      if tonumber(other) == n then found = true else left[#left + 1] = other end
    end
    if not record[1] or (found and (#left == 0 or record[2] == 'any')) then
      redis.call('SREM', board_key(job, 'waiting'), id)
      if record[1] then wake(id, 'tasks') end
    elseif found then
      redis.call('HSET', agent_key(id), 'wait_tasks', cjson.encode(left))
    end
  end
end

steps.complete = function()
  local n = given.task
  local task, missing = find_task(n)
  if missing then return missing end
  if task.state == 'completed' then return refuse('task %d is completed already, by %s', n, task.owner_name) end
  if agent ~= task.owner and not is_lead(job, agent) then
    return refuse(task.owner and 'task %d belongs to %s: only its owner and the lead can complete it'
      or 'task %d is nobody\'s yet: claim it first', n, task.owner_name)
  end
  if task.owner ~= agent then task.owner, task.owner_name = agent, name_of(agent) end
  task.state = 'completed'
  redis.call('HDEL', board_key(job, 'owners'), n)
  save_task(job, n, task)
  open_task(job, n, task)
  set_text(n, 'result', given.result)
  tell_board(job, agent, n, task, 'completed')
  local unblocked = {}
  for other = 1, redis.call('HLEN', board_key(job)) do
    local waiting = load_task(job, other)
    for _, first in ipairs(waiting.blocked_by or {}) do
      if first == n and open_task(job, other, waiting) then unblocked[#unblocked + 1] = other end
    end
  end
  wake_waiting(n)
  return answer(job, cause, { unblocked = table.concat(unblocked, ', ') })
end

return steps[operation]()
