-- Some ids of jobs, newest first, including expired ones.
--   state   '' for all jobs
--   before  only jobs older than this position, `TIME:ID`; '' begins with the newest
--   since   only jobs made since this time, or '-inf'
--   words   lower-case words of the title, the workspace or the id; ''
--   most    the number of ids, at most 1000; with `words`, 1000 jobs are looked at
-- Returns {ids, the position at which the next part begins, or ''}
step('list_jobs', function(state, before, since, words, most)
  return jobs.list(state, before, since, words, tonumber(most))
end, { reads = true })
