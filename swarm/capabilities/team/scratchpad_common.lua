-- The scratchpad of a job.
--
-- P:job:ID:pad        hash    page -> JSON {size, version, by, by_name, at}
-- P:job:ID:page:NAME  string  the page's text
-- Of the job's record: `pad_bytes`, the size of all pages; `pad_version`, the last version given to any page, so that a version
-- is never used again, not even for a page that was deleted and made again.

function scratchpad.key(job) return job_key(job, 'pad') end
function scratchpad.page_key(job, page) return job_key(job, 'page:' .. page) end

keep_parts('pad')
