-- Steps on behalf of an agent that are none of its journal's: what its tools do to things that the agents of a job share.

-- Nil while generation `gen` still owns the agent, else the answer to give: it may not do anything in its name any more.
function causes.fence(id, gen)
  local state, owner = fields(id, 'state', 'gen')
  if state == 'cancelled' or is_doomed(id) then return { 'refused', 'not live', '{}' } end
  if state == 'running' and owner == gen then return nil end
  return { 'refused', 'stale', cjson.encode({ agent = id, generation = tonumber(gen) }) }
end

-- A cause that an agent's segment gives names its generation, as in 'board/AGENT:GENERATION/CALL'. Which one it was makes no other cause of
-- it. Returns the cause, and the generation or nil.
local function read_cause(cause)
  local before, gen, call = cause:match('^(.-agent%-%x+):(%d+)(/.*)$')
  return before and before .. call or cause, gen
end

-- Nil when such a step may be made, else the answer to give. `cause` tells a repeat, which answers what the first one did.
function causes.answered(job, id, cause)
  local kept_as, gen = read_cause(cause)
  local said = redis.call('HGET', job_key(job, 'answers'), kept_as)
  if said then return { 'ok', publish, said, kill } end
  local refused = gen and causes.fence(id, gen)
  if refused then return refused end
  local state, of = fields(id, 'state', 'job')
  if of ~= job or TERMINAL[state] or is_doomed(id) then return { 'refused', 'not live', '{}' } end
  return nil
end

-- The answer of a step that was done: kept under its cause.
function causes.answer(job, cause, value)
  local said = cjson.encode(value)
  redis.call('HSET', job_key(job, 'answers'), (read_cause(cause)), said)
  return { 'ok', publish, said, kill }
end

-- The answer of a step that cannot be done: a code, and what the words about it need to know.
function causes.refuse(why, about) return { 'refused', why, cjson.encode(about or {}) } end

-- The lead of the job's work: who founded its team, and the first agent in any case.
function causes.is_lead(job, id)
  return redis.call('HGET', job_key(job, 'team'), 'lead') == id or job_field(job, 'root') == id
end
