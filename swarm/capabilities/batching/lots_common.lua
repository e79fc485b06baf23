-- Requests that are not urgent: gathered, sent in lots as batches of the Message Batches API, and answered when a batch has ended.
--
-- P:batch:waiting      zset    requests that are in no lot yet, by when they were made
-- P:batch:request:ID   string  JSON {agent, server, body}: a request; ID is its custom_id, of agent and attempt
-- P:batch:reply:ID     string  JSON: its reply
-- P:batch:lots         zset    lots by the time they are due next
-- P:batch:lot:ID       hash    server, made, count; batch, the API's id; sure, '1' if the API returned it; not, JSON: batches of other lots
-- P:batch:lot:ID:open  set     its requests without a reply
-- Of an agent: `wait_batch`, the request whose reply it waits for.
--
-- A request goes into one lot, in the step that makes the lot, before anything is sent. A worker that dies while sending leaves a lot
-- without a batch. The next worker looks for the batch before it sends the lot again.

function lots.key(lot, part) return P .. ':batch:lot:' .. lot .. (part and ':' .. part or '') end
function lots.request_key(id) return P .. ':batch:request:' .. id end
function lots.reply_key(id) return P .. ':batch:reply:' .. id end
