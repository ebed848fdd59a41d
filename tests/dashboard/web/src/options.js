// What Grafana's core registers for its libraries: the options that fields of panels have, and the transformations.
import {
  FieldConfigOptionsRegistry,
  booleanOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardTransformers,
  standardTransformersRegistry,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';

const STANDARD = {
  unit: unitOverrideProcessor,
  min: numberOverrideProcessor,
  max: numberOverrideProcessor,
  decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  noValue: stringOverrideProcessor,
  filterable: booleanOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  color: identityOverrideProcessor,
};

/** Returns the registry that `applyFieldOverrides` needs for one panel. Throws for an option that no field has. */
export function registryFor({ defaults, overrides }) {
  const { custom = {}, ...standard } = defaults;
  const customNames = new Set(Object.keys(custom));
  const standardNames = new Set(Object.keys(standard));
  for (const { id } of overrides.flatMap((override) => override.properties)) {
    if (id.startsWith('custom.')) {
      customNames.add(id.slice('custom.'.length));
    } else {
      standardNames.add(id);
    }
  }
  for (const name of standardNames) {
    if (!(name in STANDARD)) {
      throw new Error(`fieldConfig sets ${name}, which is no option of a field`);
    }
  }
  return new FieldConfigOptionsRegistry(() => [
    ...Object.entries(STANDARD).map(([id, process]) => option(id, id, process, false)),
    ...[...customNames].map((name) => option(`custom.${name}`, name, identityOverrideProcessor, true)),
  ]);
}

function option(id, path, process, isCustom) {
  return { id, path, process, isCustom, name: id, settings: {}, shouldApply: () => true };
}

// Two names may stand for one transformation; the registry takes each once.
const transformations = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));

standardTransformersRegistry.setInit(() =>
  [...transformations.values()].map((each) => ({ id: each.id, name: each.name, transformation: async () => each }))
);
