// Drives an MCP server with the client that npm has: `client.mjs stdio COMMAND…` or `client.mjs http URL KEY`.
// Reads calls from standard input, a line of JSON each: {tool, given} or {list: true}; writes what comes of each as a line.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [how, first, ...rest] = process.argv.slice(2);
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
