/// <reference types="vitest/config" />
import { readFileSync } from "node:fs";

import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vite";

// `npm run dev` works against a Muster that runs elsewhere: MUSTER_URL says where.
const server = process.env.MUSTER_URL ?? "http://127.0.0.1:8000";
const serverPaths = ["/api", "/admin", "/help", "/static", "/healthz", "/readyz"];

/** Files that the admin and the help use too, beside index.html under names that stay. */
const SHARED = {
  "tokens.css": "src/styles/tokens.css",
  "mark.svg": "src/assets/mark.svg",
  "geist.woff2": "node_modules/@fontsource-variable/geist/files/geist-latin-wght-normal.woff2",
  "geist-mono.woff2": "node_modules/@fontsource-variable/geist-mono/files/geist-mono-latin-wght-normal.woff2",
};

const shareWithAdmin: Plugin = {
  name: "share-with-admin",
  apply: "build",
  generateBundle() {
    for (const [fileName, path] of Object.entries(SHARED))
      this.emitFile({ type: "asset", fileName, source: readFileSync(path) });
  },
};

export default defineConfig({
  plugins: [react(), shareWithAdmin],
  build: {
    target: "es2023",
    assetsDir: "assets",
    // A source map does not help operators of the platform.
    sourcemap: false,
    // One sheet of styles, a third larger than the first page needs: a page that is opened later can come without its
    // code, which is asked for again, but never without its styles, which no browser asks for twice.
    cssCodeSplit: false,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(serverPaths.map((path) => [path, { target: server }])),
  },
  test: {
    environment: "jsdom",
    // A browser of jsdom for each file, and one process for many: to start a process for each takes three times as long.
    pool: "vmThreads",
    testTimeout: 15_000, // a busy machine is slow, not wrong
    setupFiles: ["./src/testing/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
    css: false,
  },
});
