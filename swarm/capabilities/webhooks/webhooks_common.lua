-- Webhooks: notices of jobs over HTTP, at addresses that workers have by name, and at one that a job brings.
--
-- P:webhooks          zset    names of addresses that workers deliver to, by the time of the last announcement; `job`: those of jobs
-- P:webhooks:NAME     zset    ids of undelivered notices for that address, by when they are due
-- P:webhooks:NAME:lost zset   ids of notices that were given up, by when, as long as they are kept
-- P:webhook:NAME:ID   hash    a notice: job, notice (JSON), at, tries, why the last failed; its id is JOB/SEQ, the event's number
-- P:job:ID:webhook    string  JSON {url, secret}: the address that the job brings
-- Of a job: `budget_told`, set once its agents have used four fifths of its budget.

webhooks.NAMED_SECONDS = 86400
webhooks.NOTICE_SECONDS = 8 * 86400
webhooks.OWN = 'job'
local TOLD = { job_ended = true, question = true, budget = true }

function webhooks.key(name) return P .. ':webhooks' .. (name and ':' .. name or '') end
function webhooks.notice_key(name, id) return P .. ':webhook:' .. name .. ':' .. id end

function webhooks.lost_key(name) return webhooks.key(name) .. ':lost' end

local function knows_webhook(name) return redis.call('ZSCORE', webhooks.key(), name) end

-- Queue a notice for a job's own address. Returns whether any worker would deliver there.
function webhooks.bring(job, address)
  if not knows_webhook(webhooks.OWN) then return false end
  redis.call('SET', job_key(job, 'webhook'), address)
  return true
end

-- Whether a key holds a job's own address. It stays when the job is archived, because notices may still be due there.
function webhooks.is_address(job, key) return key == job_key(job, 'webhook') end

function webhooks.keep_notice(name, id, job, notice)
  redis.call('HSET', webhooks.notice_key(name, id), 'job', job, 'notice', notice, 'at', NOW, 'tries', 0)
  redis.call('EXPIRE', webhooks.notice_key(name, id), webhooks.NOTICE_SECONDS)
  redis.call('ZADD', webhooks.key(name), NOW, id)
end

-- Runs in the step that writes the event, so an event always has its notices, even after a crash.
at_event(function(job, kind, id, seq, ...)
  if not TOLD[kind] then return end
  local names = redis.call('ZRANGE', webhooks.key(), 0, -1)
  if #names == 0 then return end
  local given, about = { ... }, {}
  for i = 1, #given, 2 do about[given[i]] = given[i + 1] end
  if about.question then
    local to, expires = read(questions.key(about.question), 'to', 'expires')
    -- Another agent is asked, or there is no person to ask.
    if to ~= '' then return end
    about.expires_at = expires
  end
  local title, reason, stopped, rehearsed = job_fields(job, 'title', 'reason', 'stopped_at', 'rehearsed')
  if kind == 'job_ended' then about.reason, about.stopped_at = reason or '', stopped or '' end
  local notice = cjson.encode({ type = kind, job_id = job, agent_id = id, seq = seq, at = string.format('%.3f', NOW), title = title or '',
    rehearsed = rehearsed == '1', about = about })
  local own = redis.call('EXISTS', job_key(job, 'webhook')) == 1
  for _, name in ipairs(names) do
    if name ~= webhooks.OWN or own then
      webhooks.keep_notice(name, job .. '/' .. seq, job, notice)
    end
  end
end)

keep_parts('webhook')
