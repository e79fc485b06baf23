-- Steps on behalf of an agent that are none of its journal's: what its tools do to things that the agents of a job share.

-- Nil when such a step may be made, else the answer to give. `cause` tells a repeat, which answers what the first one did.
local function answered(job, id, cause)
  local said = redis.call('HGET', job_key(job, 'answers'), cause)
  if said then return { 'ok', publish, said, kill } end
  local state, of = fields(id, 'state', 'job')
  if of ~= job or TERMINAL[state] or is_doomed(id) then return { 'refused', 'not live', '{}' } end
  return nil
end

-- The answer of a step that was done: kept under its cause.
local function answer(job, cause, value)
  local said = cjson.encode(value)
  redis.call('HSET', job_key(job, 'answers'), cause, said)
  return { 'ok', publish, said, kill }
end

-- The answer of a step that cannot be done: a code, and what the words about it need to know.
local function refuse(why, about) return { 'refused', why, cjson.encode(about or {}) } end

local function name_of(id)
  local name, parent = fields(id, 'name', 'parent')
  return name or (parent == '' and 'root') or id
end

-- The lead of the job's work: who founded its team, and the first agent in any case.
local function is_lead(job, id)
  return redis.call('HGET', job_key(job, 'team'), 'lead') == id or job_field(job, 'root') == id
end
