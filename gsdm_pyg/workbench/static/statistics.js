// What several samples say together about each entry.

/** Mean and standard deviation of each entry over vectors. */
export function meanAndSpread(vectors) {
  const count = vectors.length;
  const mean = vectors[0].map((_, i) => vectors.reduce((sum, vector) => sum + vector[i], 0) / count);
  const spread = mean.map((m, i) => Math.sqrt(vectors.reduce((sum, vector) => sum + (vector[i] - m) ** 2, 0) / Math.max(count - 1, 1)));
  return { mean, spread };
}

/** The most frequent class of each entry, and its share of the samples. */
export function mostFrequent(vectors) {
  const values = [], certainty = [];
  for (let i = 0; i < vectors[0].length; i += 1) {
    const counts = new Map();
    for (const vector of vectors) counts.set(vector[i], (counts.get(vector[i]) ?? 0) + 1);
    const [value, count] = [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best));
    values.push(value);
    certainty.push(count / vectors.length);
  }
  return { values, certainty };
}

/** One answer out of many: values, and how sure each of them is, from 0 to 1. */
export function together(variable, vectors) {
  if (variable.classes) return mostFrequent(vectors);
  const { mean, spread } = meanAndSpread(vectors);
  return { values: mean, certainty: spread.map((s) => Math.max(0, 1 - s / (variable.scale ?? 1))), spread };
}

/** The least and the largest of many numbers: as arguments of Math.max they would overflow the stack. */
export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
