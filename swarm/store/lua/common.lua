-- The beginning of every library: the data model, the registration of steps, and shared functions.
--
-- P                      the key prefix
-- P:agent:ID             hash    one agent: state, gen, job, parent, depth, spec, counters, result, wait conditions
-- P:journal:ID           stream  its journal: `e`, an entry, and `seq`; ids 1-0, 2-0, … chosen by the writer (XADD refuses an id that exists)
-- P:children:ID          set     ids of the agents it spawned
-- P:await:ID             set     children whose end it still waits for while parked
-- P:mail:ID              stream  its mailbox: from, name, kind, body, reply_to; ids by the server; never trimmed
-- P:job:ID               hash    one job: state, root, limits, counters of the whole tree, result
-- P:job:ID:agents        zset    its agents by creation time
-- P:job:ID:running       set     its agents that hold a process now
-- P:job:ID:names         hash    name -> agent id; a name is never given to another agent
-- P:job:ID:requests      hash    request id -> JSON {kind, from, to, state, expires}: shutdowns and plans to be approved
-- P:job:ID:rules         list    the rules added by approvals
-- P:job:ID:answers       hash    cause (agent/tool_use id) -> the step's answer, so that a repeat gets the same one
-- P:job:ID:keys          set     keys of capabilities that expire with the job: `keep_with_job`
-- P:mail:JOB             stream  the mailbox of the job's person; the job's `unread` counts messages beyond its `read`
-- P:sent:TOKEN           string  for a while, the answer to a message from outside: a repeat is not delivered again
-- P:events:ID            stream  a job's lifecycle events, trimmed
-- P:job:ID:seq           string  the job's number of journal entries and events: each has its own, `seq`, so all of them have one order
-- P:feed                 stream  the events of all jobs except progress: job, seq, kind, agent; trimmed
-- P:ends                 stream  the ends of all jobs: job; trimmed
-- P:totals               hash    the fleet's totals since it began: turns, tools, jobs, agents, rescued, ended_STATE
-- P:live:ID, P:watch:ID  stream, string  the current words of an agent's model; kept while anyone watches
-- P:leases               zset    running agents by the time their lease ends
-- P:synced               string  written to wait until all earlier writes are on the disk
-- P:pulse                string  the start of the last sweep
-- P:timers               zset    parked agents by their deadline
-- P:deadlines            zset    jobs with a wall-time limit, by the time of the next action: rescue.lua
-- P:windows              hash    model -> its context window in tokens, as its provider told; forgotten after a month without a new one
-- P:api_keys             hash    digest -> JSON {name, scopes, …}: keys of the HTTP API
-- P:workers, P:workers:silent  hash, zset  each worker's capabilities, and when it counts as gone
-- The index of jobs, the room in Redis, kept outputs, admission to the queue, documents, endings, the budget, questions, the board, the team and the scratchpad: see the parts of those names.
--
-- States: queued -> running -> parked -> queued -> ... -> completed | failed | cancelled | timed_out.
-- A terminal state is never overwritten. A message to an ended agent that was not cancelled begins its next run, which its journal records
-- (`resumed`). So does a call of its parent, even if this parent stopped it (`stopped_by`). Keys are computed, so this needs one Redis, not
-- a Redis Cluster.
--
-- Fields of an agent:
--   era         the job's count of ends at the start of its run
--   queued      when it was last put in line
--   waited      its total time in line before it was last taken
--   unread      number of messages beyond its journal's cursor; `unread_notes`: those of them written by the runtime
--   journal_bytes, mail_bytes  the bytes of its journal's entries, and of all messages that it got; a job has the sums
--   background  its end is mailed to its parent
--   teammate    it stays alive after a task
--   idle        it is parked because it has nothing to do
--   yielded     it gave up its process for others, which come first
--   next_call   JSON: the use of its next model call if its reply is lost; '' while no call follows
--   side_calls  JSON: call -> {use, model}: its requests beside the conversation that no entry reports yet
--   told_*      the part of its counters that its parent has
--   earlier*    the answer of the run that its parent asked for, once another sender has continued it
--   verdicts    the verdicts on its work, JSON
--   graded      a grader will judge its work
--   helper      the runtime started it for its parent
-- All times are the server's, in Unix seconds.
--
-- FORMAT is the format of this library's release (core/release.py). Steps of older and newer libraries run on the same keys: they leave
-- unknown keys and fields alone, and known ones keep their type and meaning.

local TERMINAL = { completed = true, failed = true, cancelled = true, timed_out = true }
local COUNTERS = { 'turns', 'tools', 'input', 'output', 'cache_write', 'cache_read', 'cost', 'estimated', 'unpriced' }

-- State of one call. The library outlives the call, so each call resets all of it, however the previous one ended.
local P        -- the key prefix
local NOW      -- the server's clock
local publish  -- wake-up data of agents put on the queue: the caller sends their Celery messages
local kill     -- agents ended while running: the caller notifies their workers
local moved    -- whether an agent was put in line, or room was made
local in_line  -- number of agents put in line
local once     -- cached lookups of the call
local rest     -- jobs with unfinished endings: the caller continues them

-- Number of agents that one step may end, or check for agents below them, so that other callers do not wait long.
local AT_ONCE = 40
local left_at_once

-- Make `run` callable under `name`; its parameters are the call's arguments, in order, as text.
--   options.list_after  number of parameters; further arguments come as one list, which may exceed Lua's stack
--   options.reads       it changes nothing, and the server enforces that
--   options.when_full   it runs although Redis' memory is used up, because it ends, frees, answers or hands over, or says who is alive
local function step(name, run, options)
  options = options or {}
  local plain = options.list_after
  redis.register_function({
    -- LIBRARY is the library's name with the hash of its source; the first line of each library sets it.
    function_name = LIBRARY .. '_' .. name,
    flags = { options.reads and 'no-writes' or options.when_full and 'allow-oom' },
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
      -- Every step that puts agents in line, or makes room, returns `publish`.
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

-- The values of some fields of a hash, false for missing ones.
local function read(key, ...) return unpack(redis.call('HMGET', key, ...)) end
local function fields(id, ...) return read(agent_key(id), ...) end
local function field(id, name) return redis.call('HGET', agent_key(id), name) end
local function job_fields(job, ...) return read(job_key(job), ...) end
local function job_field(job, name) return redis.call('HGET', job_key(job), name) end

-- The number in a counting field; a missing field counts 0.
local function count(value) return tonumber(value or '0') end

local function add(key, name, by) return redis.call('HINCRBY', key, name, string.format('%.0f', by)) end
-- Subtracted from 0: the negative of 0 is '-0', which is no integer to Redis.
local function subtract(key, name, by) return add(key, name, 0 - by) end

local function has_ended(id) return TERMINAL[field(id, 'state') or 'completed'] end

-- The job's number of ends of agents with agents below them. An agent keeps the number from the start of its run.
local function era(job) return job_field(job, 'era') or 0 end

-- Whether an agent is about to be ended because one above it has ended. Its own end is still to come, but its actions no longer count.
-- Agents that began after that end are not affected.
-- A caller that has read them passes the agent's `job`, `parent` and `era`.
local function is_doomed(id, job, parent, began)
  if not job then job, parent, began = fields(id, 'job', 'parent', 'era') end
  if not job or redis.call('EXISTS', job_key(job, 'ending')) == 0 then return false end
  while parent and parent ~= '' do
    local ended = redis.call('ZSCORE', job_key(job, 'ending'), parent)
    if ended and tonumber(ended) > count(began) then return true end
    parent = field(parent, 'parent')
  end
  return false
end

-- The job-wide number of the next journal entry or event. Steps run one after the other, so a cause has a lower number than its effect.
local function next_seq(job) return redis.call('INCR', job_key(job, 'seq')) end

-- Add to a total of the whole fleet.
local function tally(name, by) redis.call('HINCRBY', P .. ':totals', name, by or 1) end

local listeners = {}

-- Call `act(job, kind, id, seq, name, value, ...)` in each step that writes an event.
local function at_event(act) listeners[#listeners + 1] = act end

local function emit(job, kind, id, ...)
  local seq = next_seq(job)
  redis.call('XADD', P .. ':events:' .. job, 'MAXLEN', '~', 20000, '*', 'seq', seq, 'kind', kind, 'agent', id, ...)
  if kind ~= 'progress' then
    redis.call('XADD', P .. ':feed', 'MAXLEN', '~', 100000, '*', 'job', job, 'seq', seq, 'kind', kind, 'agent', id)
    for _, act in ipairs(listeners) do act(job, kind, id, seq, ...) end
  end
end

-- What idle teammates could do. A capability that has work for them sets both.
local idling = {
  -- Offer work to a teammate that is about to be idle. Returns whether there is some.
  find_work = function(job, id) return false end,
  -- A teammate is idle now. Returns the numbers of the tasks that it keeps.
  leave = function(job, id) return {} end,
}

local sweepers = {}

-- Call `act()` in each sweep while Redis has room.
local function at_sweep(act) sweepers[#sweepers + 1] = act end

local enders = {}
local parts = { 'agents', 'running', 'line', 'called', 'ending', 'names', 'requests', 'answers', 'rules', 'questions', 'keys', 'seq' }

-- Call `act(job, id)` when an agent ends, after everything below it has. Applies to ends by steps of this library.
local function at_end(act) enders[#enders + 1] = act end

-- Let keys P:job:ID:PART expire with their job.
local function keep_parts(...)
  -- `ipairs` does not exist yet while a library is loaded.
  local more = { ... }
  for i = 1, #more do parts[#parts + 1] = more[i] end
end

-- Let an existing key expire with a job; for keys that no part of the main library knows.
local function keep_with_job(job, key)
  redis.call('SADD', job_key(job, 'keys'), key)
  local left = redis.call('PTTL', job_key(job))
  if left >= 0 then
    -- The job has ended, and its keys already have their expiry.
    redis.call('PEXPIRE', key, math.max(left, 1))
    redis.call('PEXPIRE', job_key(job, 'keys'), math.max(left, 1))
  end
end
