-- Steps on behalf of an agent outside its journal: its tools' changes to things that the agents of a job share.

-- Nil while generation `gen` still owns the agent, else the answer to return: it may no longer act for the agent.
function causes.fence(id, gen)
  local state, owner = fields(id, 'state', 'gen')
  if state == 'cancelled' or is_doomed(id) then return { 'refused', 'not live', '{}' } end
  if state == 'running' and owner == gen then return nil end
  return { 'refused', 'stale', cjson.encode({ agent = id, generation = tonumber(gen) }) }
end

-- A cause from an agent's segment contains its generation, as in 'board/AGENT:GENERATION/CALL'. Causes that differ only in the generation
-- are equal. Returns the cause, and the generation or nil.
local function read_cause(cause)
  local before, gen, call = cause:match('^(.-agent%-%x+):(%d+)(/.*)$')
  return before and before .. call or cause, gen
end

-- Nil if the step may be made, else the answer to return. A repeat, known by its `cause`, gets the first answer.
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

-- Keep a completed step's answer under its cause, and return it.
function causes.answer(job, cause, value)
  local said = cjson.encode(value)
  redis.call('HSET', job_key(job, 'answers'), (read_cause(cause)), said)
  return { 'ok', publish, said, kill }
end

-- The answer of a refused step: a code, and data for its explanation.
function causes.refuse(why, about) return { 'refused', why, cjson.encode(about or {}) } end

-- Whether the agent leads the job's work: the founder of its team, and in any case the first agent.
function causes.is_lead(job, id)
  return redis.call('HGET', job_key(job, 'team'), 'lead') == id or job_field(job, 'root') == id
end
