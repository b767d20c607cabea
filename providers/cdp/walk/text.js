// Text of a page, shortened and put on one line. What is written to an answer
// is cleaned once more on the other side; here it matters that a name is
// compared as it was shown.
const NAME_BYTES = 512;
const MUCH = 4 * NAME_BYTES; // no more than this of one text is looked at

// Characters that a person does not see and a model does: controls, direction
// marks, zero-width spaces, tags. The joiners U+200C and U+200D stay.
const unseen = /(?![\u200C\u200D\s])[\p{Cf}\p{Cc}]/gu;
const plain = /^[\x20-\x7E]*$/;

// collapse makes one line of s, in well-formed Unicode.
function collapse(s) {
  if (!plain.test(s)) s = s.toWellFormed().replace(/\s+/g, " ").replace(unseen, "");
  return s.includes("  ") ? s.replace(/ {2,}/g, " ").trim() : s.trim();
}

// some takes enough of a long text for a name.
const some = (s) => (s.length > MUCH ? s.trimStart().slice(0, MUCH) : s);

const encoder = new TextEncoder();
const scratch = new Uint8Array(8192);

// fits is how many UTF-16 units of s fit into so many bytes of UTF-8.
const fits = (s, bytes) => (s.length * 3 <= bytes ? s.length : encoder.encodeInto(s, scratch.subarray(0, bytes)).read);

// cut shortens s to at most bytes of UTF-8, the mark of the cut included.
function cut(s, bytes) {
  return fits(s, bytes) === s.length ? s : s.slice(0, fits(s, bytes - 3)) + "…";
}

// pieces cuts a long text into several that are each as long as a name may be,
// between words where it can; after so many it stops.
function pieces(s, most) {
  const out = [];
  while (s !== "") {
    if (out.length === most - 1) return out.concat(cut(s, NAME_BYTES));
    let end = fits(s, NAME_BYTES);
    if (end < s.length) {
      const space = s.lastIndexOf(" ", end);
      if (space > end / 2) end = space;
    }
    out.push(s.slice(0, end));
    s = s.slice(end).trimStart();
  }
  return out;
}

const words = (s) => new Set(s.split(" "));
