-- The beginning of every library: the data model, how a step is registered, and what each of them may use.
--
-- P                      the key prefix
-- P:agent:ID             hash    one agent: state, gen, job, parent, depth, spec, counters, result, what it waits for
-- P:journal:ID           stream  its journal: `e`, an entry, and `seq`; ids 1-0, 2-0, … chosen by the writer (XADD refuses an id that exists)
-- P:children:ID          set     ids of the agents it spawned
-- P:await:ID             set     children whose end it still waits for while parked
-- P:outputs:ID           hash    its tool outputs that are too long for the conversation
-- P:mail:ID              stream  its mailbox: from, name, kind, body, reply_to; ids by the server; never trimmed
-- P:job:ID               hash    one job: state, root, limits, counters of the whole tree, result
-- P:job:ID:agents        zset    its agents by creation time
-- P:job:ID:running       set     its agents that hold a process now
-- P:job:ID:names         hash    name -> agent id; a name is never given to another agent
-- P:job:ID:requests      hash    request id -> JSON {kind, from, to, state, expires}: shutdowns and plans to be approved
-- P:job:ID:rules         list    the rules that approvals have added
-- P:job:ID:answers       hash    cause (agent/tool_use id) -> what the step answered, so that a repeat answers the same
-- P:job:ID:keys          set     keys of capabilities that live and expire with the job: `keep_with_job`
-- P:mail:JOB             stream  the mailbox of the person whose job it is; the job's `unread` counts what lies beyond its `read`
-- P:sent:TOKEN           string  for a while, what was answered about a message from outside: sent again, it is not delivered again
-- P:events:ID            stream  a job's lifecycle events, trimmed
-- P:job:ID:seq           string  how many journal entries and events the job has: each carries its number, `seq`, so all of them have one order
-- P:feed                 stream  the events of all jobs that are no mere progress: job, seq, kind, agent; trimmed
-- P:totals               hash    what the fleet has counted since it began: the counters of all agents; jobs, agents, rescued, ended_STATE
-- P:live:ID, P:watch:ID  stream, string  what an agent's model is saying right now; there while somebody looks
-- P:jobs                 zset    all jobs by creation time
-- P:leases               zset    running agents by the time their lease ends
-- P:synced               string  written where somebody waits until all before it is on the disk
-- P:pulse                string  when the last look for what fell began
-- P:timers               zset    parked agents by their deadline
-- P:deadlines            zset    jobs with a wall-time limit, by the time something must be done about it: rescue.lua
-- P:api_keys             hash    digest -> JSON {name, scopes, …}: who may call the HTTP API
-- P:workers, P:workers:silent  hash, zset  what each worker has, and when it counts as gone
-- Admission to the queue, documents, endings, the purse, questions, the board, the team and the scratchpad: the parts named after them.
--
-- States: queued -> running -> parked -> queued -> ... -> completed | failed | cancelled | timed_out.
-- A terminal state is never overwritten; a message to an agent that ended, but was not cancelled, begins its next run, which
-- its journal tells (`resumed`). So does its parent's call, also where it was this parent that stopped it (`stopped_by`). Keys are computed, so this needs one Redis, not a Redis Cluster.
--
-- Of an agent's fields: `era` tells when its run began, by its job's count of ends; `queued`, when it was put in line last, `waited`, how long it
-- stood there in all before it was taken last; `unread` counts the messages beyond its journal's
-- cursor, `unread_notes` those of them that the runtime wrote; `background` tells that its end is mailed to its parent; `teammate`, that it lives on after a task; `idle`, that it is
-- parked because it has nothing to do; `yielded`, that it gave its process up for others, who come first; `told_*`, how much of
-- its counters its parent has; `earlier*`, the answer of the run that its parent asked for, once it went on because of somebody else.
-- `verdicts` is what was said of its work, JSON; `graded` tells that a grader will judge it; `helper`, that the runtime started it for its
-- parent.
-- All times are the server's, in Unix seconds.

local TERMINAL = { completed = true, failed = true, cancelled = true, timed_out = true }
local COUNTERS = { 'turns', 'tools', 'input', 'output', 'cache_write', 'cache_read', 'cost' }

-- What one call works on. The library outlives the call, so each call sets all of it anew, whatever became of the one before.
local P        -- the key prefix
local NOW      -- the server's clock
local publish  -- agents that were put on the queue: the caller sends their Celery messages
local kill     -- agents that ran when they were ended: the caller tells their workers
local moved    -- whether somebody was put in line, or room was made
local in_line  -- how many were put in line
local once     -- what the call has looked up and may use again
local rest     -- jobs for which an end has left something to do: the caller goes on with it

-- How many agents one step may end, or look at to end what is below them: no other caller may wait long for its turn.
local AT_ONCE = 40
local left_at_once

-- Make `run` callable under `name`; its parameters are the call's arguments, in order, as text.
--   options.list_after  so many are parameters, the rest comes as one list: it may be longer than what fits on Lua's stack
--   options.reads       it changes nothing, and the server holds it to that
local function step(name, run, options)
  local plain = options and options.list_after
  redis.register_function({
    -- LIBRARY is the library's name, with the hash of its source: the first line of each.
    function_name = LIBRARY .. '_' .. name,
    flags = options and options.reads and { 'no-writes' } or {},
    callback = function(_, arguments)
      local time = redis.call('TIME')
      P, NOW, publish, kill, rest, once = arguments[1], tonumber(time[1]) + tonumber(time[2]) / 1e6, {}, {}, {}, {}
      left_at_once, in_line, moved = AT_ONCE, 0, false
      local parameters, many = {}, plain and plain + 1 or #arguments - 1
      for i = 1, plain or many do parameters[i] = arguments[i + 1] end
      if plain then
        local list = {}
        for i = plain + 2, #arguments do list[#list + 1] = arguments[i] end
        parameters[many] = list
      end
      local answer = run(unpack(parameters, 1, many))
      -- `publish` is part of the answer of every step that puts agents in line, or makes room.
      if moved then admission.call_next() end
      return answer
    end,
  })
end

local function agent_key(id) return P .. ':agent:' .. id end
local function journal_key(id) return P .. ':journal:' .. id end
local function children_key(id) return P .. ':children:' .. id end
local function await_key(id) return P .. ':await:' .. id end
local function job_key(id, part) return P .. ':job:' .. id .. (part and ':' .. part or '') end

-- The values of some fields of a hash, false for those that it does not have.
local function read(key, ...) return unpack(redis.call('HMGET', key, ...)) end
local function fields(id, ...) return read(agent_key(id), ...) end
local function field(id, name) return redis.call('HGET', agent_key(id), name) end
local function job_fields(job, ...) return read(job_key(job), ...) end
local function job_field(job, name) return redis.call('HGET', job_key(job), name) end

-- A field that counts something; one that is not there counts nothing.
local function count(value) return tonumber(value or '0') end

local function add(key, name, by) return redis.call('HINCRBY', key, name, string.format('%.0f', by)) end
-- Subtracted from 0: the negative of 0 is '-0', which is no integer to Redis.
local function subtract(key, name, by) return add(key, name, 0 - by) end

local function has_ended(id) return TERMINAL[field(id, 'state') or 'completed'] end

-- How often something with agents below it has ended in a job. Agents carry the count of when they began their run.
local function era(job) return job_field(job, 'era') or 0 end

-- Whether an agent is about to be ended because one above it has: its turn has not come yet, but nothing that it does counts any more.
-- Agents that began after that end are none of its business.
local function is_doomed(id)
  local job, parent, began = fields(id, 'job', 'parent', 'era')
  if not job or redis.call('EXISTS', job_key(job, 'ending')) == 0 then return false end
  while parent and parent ~= '' do
    local ended = redis.call('ZSCORE', job_key(job, 'ending'), parent)
    if ended and tonumber(ended) > count(began) then return true end
    parent = field(parent, 'parent')
  end
  return false
end

-- The job-wide number of the next journal entry or event. Steps come one after the other, so whatever caused something has a lower one.
local function next_seq(job) return redis.call('INCR', job_key(job, 'seq')) end

-- Count something of the whole fleet.
local function tally(name, by) redis.call('HINCRBY', P .. ':totals', name, by or 1) end

local listeners = {}

-- Have `act(job, kind, id, seq, name, value, ...)` called in the step that writes an event.
local function at_event(act) listeners[#listeners + 1] = act end

local function emit(job, kind, id, ...)
  local seq = next_seq(job)
  redis.call('XADD', P .. ':events:' .. job, 'MAXLEN', '~', 20000, '*', 'seq', seq, 'kind', kind, 'agent', id, ...)
  if kind ~= 'progress' then
    redis.call('XADD', P .. ':feed', 'MAXLEN', '~', 100000, '*', 'job', job, 'seq', seq, 'kind', kind, 'agent', id)
    for _, act in ipairs(listeners) do act(job, kind, id, seq, ...) end
  end
end

local enders = {}
local parts = { 'agents', 'running', 'line', 'called', 'ending', 'names', 'requests', 'answers', 'rules', 'questions', 'keys', 'seq' }

-- Have `act(job, id)` called when an agent ends, after all that is below it has. It holds for the ends that steps of this library make.
local function at_end(act) enders[#enders + 1] = act end

-- Have keys P:job:ID:PART live and expire with their job.
local function keep_parts(...)
  -- While a library is loaded there is no `ipairs` yet.
  local more = { ... }
  for i = 1, #more do parts[#parts + 1] = more[i] end
end

-- Have a key, which exists, live and expire with a job: for keys that no part of the main library knows.
local function keep_with_job(job, key)
  redis.call('SADD', job_key(job, 'keys'), key)
  local left = redis.call('PTTL', job_key(job))
  if left >= 0 then
    -- The job has ended, and its keys have been given their time.
    redis.call('PEXPIRE', key, math.max(left, 1))
    redis.call('PEXPIRE', job_key(job, 'keys'), math.max(left, 1))
  end
end
