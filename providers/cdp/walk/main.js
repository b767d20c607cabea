// What is asked from outside.
const api = {
  // walk takes a snapshot, retires the refs of the one before and answers with
  // the first nodes, of about so many characters.
  walk(of, chars) {
    const walk = new Walk();
    generation = of;
    held = walk.held;
    shown = walk.nodes;
    return { nodes: from(0, chars), total: shown.length, elements: held.length, unread: walk.unread };
  },
  // nodes answers with nodes of the last snapshot, null when that is another.
  nodes(of, first, chars) {
    return of === generation ? from(first, chars) : null;
  },
  aim, focus, read,
};

function from(first, chars) {
  let end = first;
  for (let size = 0; end < shown.length && size <= chars; end++) size += sizeOf(shown[end]);
  return shown.slice(first, end);
}
