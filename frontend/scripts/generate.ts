// Writes the types of the REST API from the server's own schema, so that the pages do not build against another one.
//
// MUSTER_OPENAPI names a document that is there already, for builds on a machine without the server's Python.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import openapiTS, { astToString } from "openapi-typescript";

const frontend = dirname(import.meta.dirname);
const root = dirname(frontend);

function serverDocument(): string {
  const given = process.env.MUSTER_OPENAPI;
  if (given !== undefined && given !== "") return readFileSync(resolve(given), "utf8");
  const python = process.env.MUSTER_PYTHON ?? join(root, ".venv", "bin", "python");
  return execFileSync(python, ["manage.py", "spectacular", "--format", "openapi-json"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    // The state of a platform that may be running here is not touched.
    env: { ...process.env, MUSTER_HOME: join(root, "build", "check"), MUSTER_TESTING: "1" },
  });
}

/** Files that did not change keep their time, so nothing is built again for them. */
function write(path: string, text: string): void {
  if (!existsSync(path) || readFileSync(path, "utf8") !== text) writeFileSync(path, text);
}

const document = serverDocument();
write(join(frontend, "openapi.json"), document);
const types = astToString(await openapiTS(document));
write(join(frontend, "src", "api", "schema.d.ts"), `// Written by scripts/generate.ts.\n\n${types}`);
