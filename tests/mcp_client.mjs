// Drives an MCP server with the client that npm has: `mcp_client.mjs PACKAGES stdio COMMAND…` or `… PACKAGES http URL KEY`.
// Reads calls from standard input, a line of JSON each: {tool, given} or {list: true}; writes what comes of each as a line.
import { createInterface } from "node:readline";

const [packages, how, first, ...rest] = process.argv.slice(2);
const load = (name) => import(`${packages}/@modelcontextprotocol/sdk/dist/esm/client/${name}.js`);
const { Client } = await load("index");
const { StdioClientTransport } = await load("stdio");
const { StreamableHTTPClientTransport } = await load("streamableHttp");
const transport =
  how === "stdio"
    ? new StdioClientTransport({ command: first, args: rest, env: process.env })
    : new StreamableHTTPClientTransport(new URL(first), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
const client = new Client({ name: "a-client-from-npm", version: "1.0.0" });
await client.connect(transport);
for await (const line of createInterface({ input: process.stdin })) {
  const { list, tool, given } = JSON.parse(line);
  const progress = [];
  const onprogress = ({ message }) => progress.push(message);
  const found = list
    ? await client.listTools()
    : await client.callTool({ name: tool, arguments: given }, undefined, { onprogress, timeout: 60_000 });
  process.stdout.write(`${JSON.stringify({ ...found, progress })}\n`);
}
await client.close();
