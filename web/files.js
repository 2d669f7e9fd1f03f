// Files, dropped or chosen: folders walked, in the order of their names.

const byName = (a, b) => (a.webkitRelativePath || a.name).localeCompare(b.webkitRelativePath || b.name, "en", { numeric: true });
export const inOrder = (files) => [...files].sort(byName);

// By its name what the service reads, whether or not this browser knows it.
export const looksLikeImage = (file) => /\.(png|jpe?g|bmp|tiff?|webp|pgm|ppm)$/i.test(file.name) || /^image\/(png|jpeg|bmp|tiff|webp)$/.test(file.type);

/** All files of a drop. The items must be taken at once: they are gone after the event. */
export async function filesOf(transfer) {
  const roots = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const files = [];
  const walk = async (entry) => {
    if (entry instanceof File) files.push(entry);
    else if (entry.isFile) files.push(await new Promise((done, failed) => entry.file(done, failed)));
    else for (const child of await childrenOf(entry)) await walk(child);
  };
  for (const root of roots) if (root) await walk(root);
  return inOrder(files);
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {  // it answers a hundred at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return all;
    all.push(...some);
  }
}
