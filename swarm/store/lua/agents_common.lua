-- An agent's basic operations: its journal, its mail, waking it, and checking that a write is its owner's.

-- Wait conditions of a parked agent, besides its children and the time.
agents.WAITS = { 'wait_mode', 'wait_mail', 'wait_tasks', 'wait_question', 'wait_tokens', 'wait_cost', 'wait_batch', 'wait_model', 'idle' }

-- Remove a parked agent from the lists of waiting agents.
function agents.stop_waiting(id, job)
  redis.call('DEL', await_key(id))
  redis.call('ZREM', P .. ':timers', id)
  redis.call('ZREM', job_key(job, 'team:idle'), id)
  redis.call('ZREM', job_key(job, 'budget'), id)
end

function agents.wake(id, why)
  local state, job = fields(id, 'state', 'job')
  if state ~= 'parked' then return false end
  agents.stop_waiting(id, job)
  redis.call('HDEL', agent_key(id), unpack(agents.WAITS))
  admission.put_on_queue(id)
  emit(job, 'woken', id, 'why', why)
  return true
end

-- The record counts its journal's entries, so that an append never has to read one back.
function agents.journal_length(id) return count(field(id, 'length')) end

-- Append entries, the first as number `number`, and set further fields of the agent in the same command.
--   had  the bytes of the journal before
-- Returns the bytes of the journal, and of all journals of the job
function agents.append_all(id, job, number, entries, had, ...)
  local bytes = 0
  for i, entry in ipairs(entries) do
    redis.call('XADD', journal_key(id), string.format('%d-0', number + i - 1), 'e', entry, 'seq', next_seq(job))
    bytes = bytes + #entry
  end
  redis.call('HSET', agent_key(id), 'length', number + #entries - 1, 'journal_bytes', string.format('%.0f', had + bytes), ...)
  return had + bytes, add(job_key(job), 'journal_bytes', bytes)
end

function agents.append(id, job, number, entry) agents.append_all(id, job, number, { entry }, count(field(id, 'journal_bytes'))) end

-- Put a message into a mailbox, and wake its owner if it waits for one. `to` may be a job: the person's mailbox.
-- Returns the message's id there.
function agents.deliver(to, from, name, kind, body, reply_to)
  local id = redis.call('XADD', P .. ':mail:' .. to, '*', 'from', from, 'name', name, 'kind', kind, 'body', body,
    'reply_to', reply_to or '')
  local job, awaited, unread, unread_notes, bytes = fields(to, 'job', 'wait_mail', 'unread', 'unread_notes', 'mail_bytes')
  add(job_key(job or to), 'mail_bytes', #body)
  if not job then
    redis.call('HINCRBY', job_key(to), 'unread', 1)
    emit(to, 'message', from, 'to', 'user', 'sort', kind, 'id', id)
    return id
  end
  local note = kind == 'notification'
  redis.call('HSET', agent_key(to), 'unread', count(unread) + 1, 'unread_notes', count(unread_notes) + (note and 1 or 0),
    'mail_bytes', string.format('%.0f', count(bytes) + #body))
  if not note then
    emit(job, 'message', from, 'to', to, 'sort', kind, 'id', id)
  end
  if awaited == 'any' or (awaited == 'talk' and not note) then agents.wake(to, 'mail') end
  return id
end

-- Send an agent a notification, as data: the receiver's runtime writes the text.
function agents.notify(to, notice, from, name)
  return agents.deliver(to, from or 'runtime', name or 'runtime', 'notification', cjson.encode(notice))
end

-- Set a job's deadline, `seconds` from now.
function agents.set_deadline(job, seconds)
  redis.call('HSET', job_key(job), 'deadline', NOW + seconds, 'seconds', seconds)
  redis.call('ZADD', P .. ':deadlines', NOW + seconds, job)
end

-- Whether an ended agent has been continued by other agents as often as allowed.
function agents.is_worn_out(id, job)
  local resumes, state = fields(id, 'resumes', 'state')
  return TERMINAL[state] and count(resumes) >= tonumber(job_field(job, 'max_resumes') or '100')
end

-- Wake the parent of a `child` that has ended or become idle, if the parent waited for it.
function agents.stop_awaiting(parent, child)
  local awaited, mode = redis.call('SREM', await_key(parent), child) == 1, field(parent, 'wait_mode')
  -- 'child': the parent rests, and any of its children will do.
  if mode == 'child' or (awaited and (mode == 'any' or redis.call('SCARD', await_key(parent)) == 0)) then
    agents.wake(parent, 'children')
  end
end

function agents.name_of(id)
  local name, parent = fields(id, 'name', 'parent')
  return name or (parent == '' and 'root') or id
end

-- The tokens used by an agent and all below it, in all of its runs.
function agents.tokens_of(id)
  local tokens = 0
  for _, counted in ipairs(redis.call('HMGET', agent_key(id), 'input', 'output', 'cache_write', 'cache_read',
    'below_input', 'below_output', 'below_cache_write', 'below_cache_read')) do
    tokens = tokens + count(counted)
  end
  return tokens
end

-- The notice of a run's end for the agent that asked for it, with the run's use (`run_*`: the values at its start).
function agents.notice_of_end(id, state, text, reason)
  local label, name, tools, turns, created = fields(id, 'label', 'name', 'tools', 'turns', 'created')
  local run_tools, run_turns, run_tokens, run_began = fields(id, 'run_tools', 'run_turns', 'run_tokens', 'run')
  return { what = 'ended', agent = id, label = label or '', name = name or '', state = state, text = text, reason = reason,
    tools = count(tools) - count(run_tools), turns = count(turns) - count(run_turns), tokens = agents.tokens_of(id) - count(run_tokens),
    seconds = NOW - tonumber(run_began or created or NOW) }
end

-- Of each counter: the agent's own, the sum of those below it, and the part that its parent has.
local SUMS = {}
for i = 1, #COUNTERS do
  local name = COUNTERS[i]
  SUMS[3 * i - 2], SUMS[3 * i - 1], SUMS[3 * i] = name, 'below_' .. name, 'told_' .. name
end

-- Add an agent's unreported counts to its parent's sums; a parent that has ended passes them on at once.
function agents.tell_sums(id, parent)
  while parent and parent ~= '' do
    local sums, told = redis.call('HMGET', agent_key(id), unpack(SUMS)), {}
    for i, name in ipairs(COUNTERS) do
      local all, before = count(sums[3 * i - 2]) + count(sums[3 * i - 1]), count(sums[3 * i])
      if all ~= before then
        add(agent_key(parent), 'below_' .. name, all - before)
        told[#told + 1] = 'told_' .. name
        told[#told + 1] = string.format('%.0f', all)
      end
    end
    if #told == 0 then return end
    redis.call('HSET', agent_key(id), unpack(told))
    if not TERMINAL[field(parent, 'state')] then return end
    id, parent = parent, field(parent, 'parent')
  end
end

-- Every write of a segment begins with this. Returns nil if generation `gen` still owns the agent and `number` (if given) is its journal's
-- next entry; else the refusal. 'repeat' means that this very step was done already: a client repeats a call if its connection broke before
-- the answer. Only a generation's owner writes under it, except for an end from outside. A step is therefore a repeat only in one of the
-- states in which it leaves the agent (`leaves`).
function agents.refusal(id, gen, leaves, number, entries)
  local state, owner, length, job, parent, began = fields(id, 'state', 'gen', 'length', 'job', 'parent', 'era')
  length = count(length)
  if state == 'cancelled' or is_doomed(id, job, parent, began) then return 'cancelled' end
  if owner ~= gen then return 'stale' end
  if leaves[state] and (not number or length == number + entries - 1) then return 'repeat' end
  if state ~= 'running' or (number and length ~= number - 1) then return 'stale' end
  return nil
end
