import { CodeRefused } from "./limits";
import type { Given } from "./prepare";

/**
 * Returns the one folder or file of a drop. To be called within the event: later the browser has forgotten what was
 * dropped.
 *
 * @throws CodeRefused if it is not one folder or one file
 */
export function givenByDrop(data: DataTransfer): Given {
  const items = [...data.items].filter((item) => item.kind === "file");
  const [item] = items;
  if (item === undefined || items.length > 1)
    throw new CodeRefused("Drop one folder or one file. Several files go into one folder first.");
  const entry = item.webkitGetAsEntry();
  if (entry?.isDirectory === true) return { kind: "dropped", entry: entry as FileSystemDirectoryEntry };
  const file = item.getAsFile();
  if (file === null)
    throw new CodeRefused("The browser cannot read what was dropped. Choose it with the button.");
  return { kind: "file", file };
}
