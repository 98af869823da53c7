import "./styles/layers.css";
import "@fontsource-variable/geist/wght.css";
import "@fontsource-variable/geist-mono/wght.css";
import "./styles/mantine.css";
import "./styles/tokens.css";
import "./styles/global.css";

import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { makeQueryClient } from "./api/queries";
import { makeRouter } from "./app/router";
import { goToSignIn, makeCache } from "./app/signedOut";
import { cssVariables, theme } from "./app/theme";

const cache = makeCache(() => goToSignIn(router, client));
const client = makeQueryClient(cache);
const router = makeRouter(client);

const element = document.getElementById("root");
if (element === null) throw new Error("index.html has no #root");
createRoot(element).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto">
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
