-- Give the process back until a condition holds, unless it holds already.
-- Whatever can make a condition true looks at the same keys in one step of its own, so no wake-up is lost.
-- ARGV: prefix, agent, generation, number of the entry, entry, condition JSON {children?, tasks?, mode?, mail?, until?, rest?, said?}
--   children, mode  agents whose end, or idleness, is awaited: 'all' of them or 'any'
--   tasks, mode     tasks of the board whose completion is awaited: 'all' of them or 'any'
--   mail            'any' message, or 'talk': one that the runtime did not write
--   until           a time, Unix seconds
--   rest            nothing is left to do: wait for mail while a child is at work; a teammate waits in any case, and its lead is
--                   told, with what it `said` last; but a task of the board that fits it is offered to it first
--   question, ask   the answer to a question, which is asked in this step unless it was before: shared_questions.lua
-- Answers {'parked', publish} | {'go on', why: 'children' | 'tasks' | 'time' | 'mail' | 'answer' | 'nothing'} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { parked = true, queued = true }, number, 1)
if refused then return { refused } end
local wait = cjson.decode(ARGV[6])
local record = redis.call('HMGET', agent_key(id), 'job', 'parent', 'unread', 'unread_notes', 'teammate', 'name', 'label')
local job, unread = record[1], tonumber(record[3] or '0')
local alive, ended = {}, 0
for _, child in ipairs(wait.children or {}) do
  local other = redis.call('HMGET', agent_key(child), 'state', 'idle')
  if not other[1] or TERMINAL[other[1]] or other[2] == '1' then ended = ended + 1 else alive[#alive + 1] = child end
end
if wait.children and (#alive == 0 or (wait.mode == 'any' and ended > 0)) then return { 'go on', 'children' } end
local tasks = open_of(job, wait.tasks or {})
if wait.tasks and (#tasks == 0 or (wait.mode == 'any' and #tasks < #wait.tasks)) then return { 'go on', 'tasks' } end
if wait['until'] and wait['until'] <= NOW then return { 'go on', 'time' } end
if wait.rest then wait.mail = 'any' end
if wait.mail == 'any' and unread > 0 then return { 'go on', 'mail' } end
if wait.mail == 'talk' and unread > tonumber(record[4] or '0') then return { 'go on', 'mail' } end
if wait.question then
  local state = question_state(wait.question)
  if state and state ~= 'open' then return { 'go on', 'answer' } end
end
local idle = false
if wait.rest then
  local busy = false
  for _, child in ipairs(redis.call('SMEMBERS', children_key(id))) do
    local other = redis.call('HMGET', agent_key(child), 'state', 'idle')
    if other[1] and not TERMINAL[other[1]] and other[2] ~= '1' then
      busy = true
      -- One that somebody else had go on ends without a notice: its end must wake, too.
      alive[#alive + 1], wait.mode = child, 'any'
    end
  end
  if not busy and record[5] ~= '1' then return { 'go on', 'nothing' } end
  idle = not busy
end
if idle then
  local n, task = open_task_for(job, id)
  if n then
    offer_to(job, n, task, id)
    return { 'go on', 'mail' }
  end
end
append(id, number, ARGV[5])
redis.call('HSET', agent_key(id), 'state', 'parked', 'wait_mode', wait.mode or 'all', 'wait_mail', wait.mail or '',
  'active', NOW)
if idle then
  redis.call('HSET', agent_key(id), 'idle', '1', 'activity', 'idle')
  redis.call('ZADD', job_key(job) .. ':team:idle', NOW, id)
end
if wait.tasks then
  redis.call('HSET', agent_key(id), 'wait_tasks', cjson.encode(tasks))
  redis.call('SADD', board_key(job, 'waiting'), id)
end
redis.call('DEL', await_key(id))
for _, child in ipairs(alive) do redis.call('SADD', await_key(id), child) end
if wait.question then
  redis.call('HSET', agent_key(id), 'wait_question', wait.question)
  wait['until'] = tonumber(redis.call('HGET', question_key(wait.question), 'expires')
    or ask(wait.question, id, job, wait.ask))
end
if wait['until'] then redis.call('ZADD', P .. ':timers', wait['until'], id) end
leave(id, job)
emit(job, 'parked', id, 'children', #alive, 'until', wait['until'] or '', 'idle', idle and '1' or '')
if idle then
  pass_on(job, id)
  stop_awaiting(record[2], id)
  local held = tasks_of(job, id)
  deliver(record[2], id, record[6] or id, 'notification',
    cjson.encode({ what = 'idle', agent = id, name = record[6] or '', label = record[7] or '', text = wait.said or '',
      reason = #held > 0 and 'it has not completed what it claimed: task ' .. table.concat(held, ', ') or '' }))
end
return { 'parked', publish }
