-- Release the process until a condition holds, unless it holds already.
-- Each step that can make a condition true checks the same keys, so no wake-up is lost.
--   condition  JSON {children?, tasks?, mode?, mail?, until?, rest?, said?, question?, ask?, further?, budget?, batch?, slot?, model?, chosen?}
--     children, mode  wait for the end or idleness of these agents: 'all' of them or 'any'
--     tasks, mode     wait for the completion of these board tasks: 'all' of them or 'any'
--     mail            wait for 'any' message, or 'talk': one not written by the runtime
--     until           a time, Unix seconds
--     rest            nothing is left to do: wait for mail while a child is at work. A teammate waits in any case; its lead gets a notice
--                     with its last text (`said`), unless a suitable board task is offered to it first
--     budget          wait until current calls are settled; [tokens, cost] that must then be left: budgets_common.lua
--     slot            wait for the requested slot: governor_common.lua
--     model           wait until the model may be asked again: a person's choice of another one ends the wait
--     chosen          the id of the last choice that the caller knows, '' for none; a later one ends a wait for the model or a slot
--     batch           wait for the reply to a batched request: lots_common.lua
--     question, ask   wait for the answer to a question; this step asks it unless it was asked before: questions_common.lua
--     further         the same for further questions, {question, ask} each; one answer is enough
-- Returns {'parked', publish} | {'go on', 'model', the choice as JSON} | {'go on', why: 'children' | 'tasks' | 'time' | 'mail' | 'answer' | 'budget' | 'batch' | 'slot' | 'nothing'} | {'repeat'} | {'stale'}
--   | {'cancelled'}

local function is_at_work(id)
  local state, idle = fields(id, 'state', 'idle')
  return state and not TERMINAL[state] and idle ~= '1'
end

-- The agents among `ids` that are at work.
local function at_work(ids)
  local found = {}
  for _, id in ipairs(ids) do
    if is_at_work(id) then found[#found + 1] = id end
  end
  return found
end

local function has_child_at_work(id)
  for _, child in ipairs(redis.call('SMEMBERS', children_key(id))) do
    if is_at_work(child) then return true end
  end
  return false
end

step('park', function(id, gen, number, entry, condition)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { parked = true, queued = true }, number, 1)
  if refused then return { refused } end
  local wait = cjson.decode(condition)
  local job, parent, unread, unread_notes, teammate, name, label =
    fields(id, 'job', 'parent', 'unread', 'unread_notes', 'teammate', 'name', 'label')
  unread = count(unread)
  local alive = at_work(wait.children or {})
  if wait.children and (#alive == 0 or (wait.mode == 'any' and #alive < #wait.children)) then return { 'go on', 'children' } end
  local tasks = wait.tasks and board.open_of(job, wait.tasks)
  if wait.tasks and (#tasks == 0 or (wait.mode == 'any' and #tasks < #wait.tasks)) then return { 'go on', 'tasks' } end
  if wait['until'] and wait['until'] <= NOW then return { 'go on', 'time' } end
  if wait.rest then wait.mail = 'any' end
  if wait.mail == 'any' and unread > 0 then return { 'go on', 'mail' } end
  if wait.mail == 'talk' and unread > count(unread_notes) then return { 'go on', 'mail' } end
  local asked = wait.further or {}
  if wait.question then table.insert(asked, 1, { question = wait.question, ask = wait.ask }) end
  for _, one in ipairs(asked) do
    local state = questions.state(one.question)
    if state and state ~= 'open' then return { 'go on', 'answer' } end
    if not state and questions.ask_the_past(one.question, id, job, one.ask) then return { 'go on', 'answer' } end
  end
  if wait.budget and budgets.judge(budgets.load(job, id), wait.budget[1], wait.budget[2]) ~= 'wait' then return { 'go on', 'budget' } end
  local asks, slot = fields(id, 'asks', 'slot')
  if wait.slot and (slot or not asks) then return { 'go on', 'slot' } end
  local chosen = wait.chosen and (wait.model or wait.slot) and field(id, 'wanted_model')
  if chosen and cjson.decode(chosen).id ~= wait.chosen then return { 'go on', 'model', chosen } end
  if wait.batch and redis.call('EXISTS', lots.reply_key(wait.batch)) == 1 then return { 'go on', 'batch' } end
  local idle = false
  if wait.rest then
    idle = not has_child_at_work(id)
    -- A child that another sender continued ends without a notice, so its end must wake the parent, too.
    wait.mode = idle and 'all' or 'child'
    if idle and teammate ~= '1' then return { 'go on', 'nothing' } end
  end
  if idle and idling.find_work(job, id) then return { 'go on', 'mail' } end
  agents.append(id, job, number, entry)
  redis.call('HSET', agent_key(id), 'state', 'parked', 'wait_mode', wait.mode or 'all', 'wait_mail', wait.mail or '',
    'active', NOW)
  if idle then
    redis.call('HSET', agent_key(id), 'idle', '1', 'activity', 'idle')
    redis.call('ZADD', job_key(job, 'team:idle'), NOW, id)
  end
  if wait.tasks then
    redis.call('HSET', agent_key(id), 'wait_tasks', cjson.encode(tasks))
    redis.call('SADD', board.key(job, 'waiting'), id)
  end
  if wait.budget then
    redis.call('HSET', agent_key(id), 'wait_tokens', wait.budget[1], 'wait_cost', wait.budget[2], 'activity', "waiting for others' calls")
    redis.call('ZADD', job_key(job, 'budget'), admission.place(id), id)
  end
  if wait.slot then
    redis.call('HSET', agent_key(id), 'activity', 'waiting for its share of the model')
    once.keeps = id
    -- A wait for another agent's first reply is limited in time.
    if sharing.waits_for_prefix(id, job) then wait['until'] = math.min(wait['until'] or math.huge, NOW + 2 * sharing.GATE_SECONDS) end
  end
  if wait.model then redis.call('HSET', agent_key(id), 'wait_model', '1') end
  if wait.batch then redis.call('HSET', agent_key(id), 'wait_batch', wait.batch, 'activity', 'waiting for its batch') end
  redis.call('DEL', await_key(id))
  if #alive > 0 then redis.call('SADD', await_key(id), unpack(alive)) end
  if wait.question then redis.call('HSET', agent_key(id), 'wait_question', wait.question) end
  for _, one in ipairs(asked) do
    local expires = tonumber(redis.call('HGET', questions.key(one.question), 'expires')
      or questions.ask(one.question, id, job, one.ask))
    wait['until'] = math.min(wait['until'] or math.huge, expires)
  end
  if wait['until'] then redis.call('ZADD', P .. ':timers', wait['until'], id) end
  admission.leave(id, job)
  emit(job, 'parked', id, 'children', #alive, 'until', wait['until'] or '', 'idle', idle and '1' or '')
  if idle then
    local held = idling.leave(job, id)
    agents.stop_awaiting(parent, id)
    agents.notify(parent, { what = 'idle', agent = id, name = name or '', label = label or '', text = wait.said or '',
      tasks = #held > 0 and held or nil }, id, name or id)
  end
  return { 'parked', publish }
end, { when_full = true })
