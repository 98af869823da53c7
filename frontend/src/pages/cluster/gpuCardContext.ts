import { createContext, useContext } from "react";

import type { Gpu, Node } from "../../api/types";

export interface GpuCardControl {
  /** Shows the card while the pointer or the keyboard rests on a square. */
  show: (gpu: Gpu, node: Node, square: HTMLElement) => void;
  hide: () => void;
  /** Keeps the card until it is closed, so that the links in it can be used. */
  pin: (gpu: Gpu, node: Node, square: HTMLElement) => void;
  isOpen: (uuid: string) => boolean;
}

const nothing = () => undefined;

export const GpuCardContext = createContext<GpuCardControl>({
  show: nothing,
  hide: nothing,
  pin: nothing,
  isOpen: () => false,
});

export const useGpuCard = (): GpuCardControl => useContext(GpuCardContext);
